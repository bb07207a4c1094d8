package guard

import (
	"net"

	"golang.org/x/sys/unix"

	"github.com/holdfast-metal/holdfast/providers"
)

// bound makes the kernel drop data that the other side has not acknowledged within DeliverTime,
// even if the process is stopped or has ended. A lost packet must not be retransmitted after the
// next leader has acted. It is best effort: if it fails, the connection still works.
func bound(c net.Conn) {
	t, ok := c.(*net.TCPConn)
	if !ok {
		return
	}
	raw, err := t.SyscallConn()
	if err != nil {
		return
	}
	ms := int(providers.DeliverTime.Milliseconds())
	_ = raw.Control(func(fd uintptr) {
		_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, ms)
	})
}
