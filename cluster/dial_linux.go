package cluster

import (
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// giveUpUnacknowledged sets ackPatience on a new socket. A kernel that refuses has slower
// reconnects, no more than that.
func giveUpUnacknowledged(_, _ string, c syscall.RawConn) error {
	return c.Control(func(fd uintptr) {
		_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(ackPatience/time.Millisecond))
	})
}
