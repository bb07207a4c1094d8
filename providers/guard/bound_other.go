//go:build !linux

package guard

import "net"

// bound does nothing on systems without TCP_USER_TIMEOUT.
func bound(net.Conn) {}
