//go:build !linux

package guard

import "net"

// bound does nothing where there is no TCP_USER_TIMEOUT.
func bound(net.Conn) {}
