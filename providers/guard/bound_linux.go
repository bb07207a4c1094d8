package guard

import (
	"net"

	"golang.org/x/sys/unix"

	"github.com/holdfast-metal/holdfast/providers"
)

// bound makes the kernel give up what the other side has not acknowledged within DeliverTime, even
// when the process is stopped or has ended: a packet that was lost must not be sent again when the
// next leader has acted. It is best effort: where it fails the connection is as good as any other.
func bound(c net.Conn) {
	t, ok := c.(*net.TCPConn)
	if !ok {
		return
	}
	raw, err := t.SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Control(func(fd uintptr) {
		_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(providers.DeliverTime.Milliseconds()))
	})
}
