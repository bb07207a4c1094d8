package serve

import (
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/holdfast-metal/holdfast/cluster"
)

// hungTime is how long a peer has to end whose disk hangs or has failed.
const hungTime = 2 * time.Second

// lastResort ends the process where it would not end by itself: whatever is at a disk that hangs
// never returns, and the others cannot replace this peer while it lives, because its Raft goes on
// telling them that it leads (cluster.ErrStalled).
type lastResort struct {
	exit  func(code int)
	log   *slog.Logger
	timer atomic.Pointer[time.Timer]
}

// after lets the process run for hungTime more, if it is the disk that has ended the node.
func (l *lastResort) after(err error) {
	if !errors.Is(err, cluster.ErrStalled) && !errors.Is(err, cluster.ErrDisk) {
		return
	}
	l.timer.Store(time.AfterFunc(hungTime, func() { l.exit(1) })) // and no word then: the log may be on that disk
	l.log.Error("the process ends, and waits no longer for what is at the disk", "at_most", hungTime)
}

// stop is for the end of all that may hang.
func (l *lastResort) stop() {
	if t := l.timer.Load(); t != nil {
		t.Stop()
	}
}
