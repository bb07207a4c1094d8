package cluster

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/raft"

	"github.com/holdfast-metal/holdfast/cluster/internal/raftstore"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// ErrStalled is returned by Run if this peer leads but cannot commit, for example because
// its disk hangs. The others cannot replace such a leader, because it still sends
// heartbeats (hashicorp/raft#503). The process must exit at once.
var ErrStalled = errors.New("the leader cannot commit")

// ErrDisk is returned by Run if the disk no longer stores the data that Raft depends on, or
// returns something else than was written. The process must exit at once.
var ErrDisk = raftstore.ErrDisk

// watchdog notices when this peer leads but cannot commit.
type watchdog struct {
	n *Node
}

// slowApply is the time from which an entry that is being applied is logged as slow.
const slowApply = time.Second

// run commits a no-op when the leader is idle. It stops the peer if nothing is committed for
// StallTimeout. A slow Apply does not count: entries are committed meanwhile, and the next leader
// would meet the same entry. It counts ticks instead of reading the clock, because a process that
// was paused has not stalled.
func (wd *watchdog) run(ctx context.Context) error {
	every := min(wd.n.cfg.NoOpInterval, wd.n.cfg.StallTimeout) / 5
	tick := time.NewTicker(every)
	defer tick.Stop()
	var (
		st      stall
		slow    uint64 // index of the entry that was logged as slow
		pending = make(chan struct{}, 1)
	)
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
		wd.n.past.note(time.Now(), wd.n.fsm.Applied())
		slow = wd.noteSlow(slow)
		st.tick(every, wd.n.raft.CommitIndex(), wd.n.raft.State() == raft.Leader, wd.n.driver.busy(every))
		if st.idle >= wd.n.cfg.StallTimeout {
			return fmt.Errorf("%w: nothing committed for %v as the leader: check the disk under %s",
				ErrStalled, st.idle, wd.n.cfg.DataDir)
		}
		if _, ok := wd.n.terms.current(); ok && st.idle >= wd.n.cfg.NoOpInterval {
			wd.noOp(ctx, pending)
		}
	}
}

// stall measures how long a leader has committed nothing.
type stall struct {
	committed uint64        // the commit index at the last tick
	idle      time.Duration // time as leader since it moved
}

// tick adds the time of a tick. While an entry is being applied, Raft's queue may be full, so that
// a healthy disk commits nothing.
func (s *stall) tick(every time.Duration, committed uint64, leads, applying bool) {
	if committed != s.committed || !leads || applying {
		s.committed, s.idle = committed, 0
		return
	}
	s.idle += every
}

// noteSlow logs an entry that has been applied for long, unless it is the one that was logged last.
// It returns the index of the entry that was logged last.
func (wd *watchdog) noteSlow(last uint64) uint64 {
	a := wd.n.driver.now.Load()
	if a == nil || a.log.Index == last || time.Since(a.began) < slowApply {
		return last
	}
	wd.n.log.Warn("applying an entry is slow", "index", a.log.Index, "commands", a.kinds(), "bytes", len(a.log.Data),
		"for", time.Since(a.began).Round(time.Millisecond))
	return a.log.Index
}

// noOp proposes a command that changes nothing, unless one is pending.
func (wd *watchdog) noOp(ctx context.Context, pending chan struct{}) {
	select {
	case pending <- struct{}{}:
	default:
		return
	}
	go func() { // ends with the commit, or with ctx
		defer func() { <-pending }()
		err := wd.n.committer.commit(ctx, &internalv1.Command{
			Op: &internalv1.Command_NoOp{NoOp: &internalv1.NoOp{}},
		})
		if err != nil && ctx.Err() == nil {
			wd.n.log.Debug("no-op of the watchdog not committed", "error", err)
		}
	}()
}
