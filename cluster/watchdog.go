package cluster

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/raft"

	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// ErrStalled is what Run ends with when this peer leads but cannot commit, as with a disk that
// hangs. The others cannot replace such a leader, because it goes on telling them that it is there
// (hashicorp/raft#503): the process must exit at once.
var ErrStalled = errors.New("the leader cannot commit")

// watchdog commits a beat when the leader is idle, and ends the peer when nothing is committed for
// long. It counts ticks instead of asking the clock: a process that was paused has not stalled.
func (n *Node) watchdog(ctx context.Context) error {
	every := min(n.cfg.BeatInterval, n.cfg.StallTimeout) / 5
	tick := time.NewTicker(every)
	defer tick.Stop()
	var (
		seen  uint64        // entries applied when we last looked
		idle  time.Duration // since one was applied, as leader
		beats = make(chan struct{}, 1)
	)
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
		now := n.driver.applied.Load()
		if now != seen || n.raft.State() != raft.Leader {
			seen, idle = now, 0
			continue
		}
		idle += every
		if idle >= n.cfg.StallTimeout {
			return fmt.Errorf("%w: nothing committed for %v although it leads; is the disk under %s hanging?", ErrStalled, idle, n.cfg.DataDir)
		}
		if _, ok := n.current(); ok && idle >= n.cfg.BeatInterval {
			n.beat(ctx, beats)
		}
	}
}

// beat proposes a command that changes nothing, unless one is on its way.
func (n *Node) beat(ctx context.Context, beats chan struct{}) {
	select {
	case beats <- struct{}{}:
	default:
		return
	}
	go func() { // ends with the commit, or with ctx
		defer func() { <-beats }()
		if err := n.commit(ctx, &internalv1.Command{FeatureLevel: 1, Op: &internalv1.Command_Beat{Beat: &internalv1.Beat{}}}); err != nil && ctx.Err() == nil {
			n.log.Debug("beat not committed", "error", err)
		}
	}()
}
