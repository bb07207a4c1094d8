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

// run commits a beat when the leader is idle. It stops the peer if nothing is
// committed for StallTimeout. It counts ticks instead of reading the clock, because a
// process that was paused has not stalled.
func (wd *watchdog) run(ctx context.Context) error {
	every := min(wd.n.cfg.BeatInterval, wd.n.cfg.StallTimeout) / 5
	tick := time.NewTicker(every)
	defer tick.Stop()
	var (
		seen  uint64        // entries applied at the last tick
		idle  time.Duration // time as leader since an entry was applied
		beats = make(chan struct{}, 1)
	)
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
		now := wd.n.driver.applied.Load()
		if now != seen || wd.n.raft.State() != raft.Leader {
			seen, idle = now, 0
			continue
		}
		idle += every
		if idle >= wd.n.cfg.StallTimeout {
			return fmt.Errorf("%w: nothing committed for %v as the leader: check the disk under %s",
				ErrStalled, idle, wd.n.cfg.DataDir)
		}
		if _, ok := wd.n.terms.current(); ok && idle >= wd.n.cfg.BeatInterval {
			wd.beat(ctx, beats)
		}
	}
}

// beat proposes a command that changes nothing, unless one is pending.
func (wd *watchdog) beat(ctx context.Context, beats chan struct{}) {
	select {
	case beats <- struct{}{}:
	default:
		return
	}
	go func() { // ends with the commit, or with ctx
		defer func() { <-beats }()
		err := wd.n.committer.commit(ctx, &internalv1.Command{
			Op: &internalv1.Command_Beat{Beat: &internalv1.Beat{}},
		})
		if err != nil && ctx.Err() == nil {
			wd.n.log.Debug("no-op of the watchdog not committed", "error", err)
		}
	}()
}
