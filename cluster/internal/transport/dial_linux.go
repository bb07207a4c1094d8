package transport

import (
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// giveUpUnacknowledged sets ackTimeout on a new socket. If the kernel refuses, reconnects
// are only slower.
func giveUpUnacknowledged(_, _ string, c syscall.RawConn) error {
	return c.Control(func(fd uintptr) {
		_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(ackTimeout/time.Millisecond))
	})
}
