package serve

import (
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/holdfast-metal/holdfast/cluster"
)

// hungTime is the time that a peer with a hung or failed disk has to end.
const hungTime = 2 * time.Second

// lastResort ends a process that cannot end by itself: a call to a hung disk never returns. The
// other peers cannot elect a new leader while this one lives, because its Raft still sends
// heartbeats (cluster.ErrStalled).
type lastResort struct {
	exit  func(code int)
	log   *slog.Logger
	timer atomic.Pointer[time.Timer]
}

// after ends the process in hungTime if the disk ended the node.
func (l *lastResort) after(err error) {
	if !errors.Is(err, cluster.ErrStalled) && !errors.Is(err, cluster.ErrDisk) {
		return
	}
	l.timer.Store(time.AfterFunc(hungTime, func() { l.exit(1) })) // it logs nothing then: the log may be on that disk
	l.log.Error("the disk hangs or failed, ending the process", "at_most", hungTime)
}

// stop cancels the timer once everything that may hang has ended.
func (l *lastResort) stop() {
	if t := l.timer.Load(); t != nil {
		t.Stop()
	}
}
