package fault

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/holdfast-metal/holdfast/internal/localcluster"
	"github.com/holdfast-metal/holdfast/test/robustness/harness"
)

const (
	added      = 2                // peers
	leaveTime  = 15 * time.Second // from SIGTERM on: hand over, leave, stop
	memberTime = 30 * time.Second // until all peers are voters, and there are no other members
	leadTries  = 6                // restarts of leaders until an added peer leads
)

// membership adds two peers, which become voters, and removes two again, one of them while
// it leads.
func membership(ctx context.Context, c *harness.Cluster, _ *rand.Rand) (Heal, error) {
	var more []*localcluster.Peer
	for range added {
		p, err := c.Add(ctx)
		if err != nil {
			return nil, err
		}
		more = append(more, p)
	}
	if err := settled(ctx, c); err != nil {
		return nil, fmt.Errorf("two more peers join: %w", err)
	}
	return func(ctx context.Context) error { return removeAll(ctx, c, more) }, nil
}

func settled(ctx context.Context, c *harness.Cluster) error {
	ctx, stop := context.WithTimeout(ctx, memberTime)
	defer stop()
	if err := c.WaitReady(ctx); err != nil {
		return err
	}
	return c.Settled(ctx)
}

// removeAll removes peers, one after the other, the first of them as leader.
func removeAll(ctx context.Context, c *harness.Cluster, more []*localcluster.Peer) error {
	leader, err := leadOne(ctx, c, more)
	if err != nil {
		return fmt.Errorf("make one of %d new peers lead: %w", len(more), err)
	}
	if i := slices.Index(more, leader); i > 0 {
		more[0], more[i] = more[i], more[0]
	}
	for _, p := range more {
		leads := p == leader
		if err := leave(ctx, c, p); err != nil {
			return fmt.Errorf("remove peer %s (the leader: %t): %w", p.ID, leads, err)
		}
		c.Log.Info("a peer has left", "peer", p.ID, "led", leads)
	}
	return nil
}

func leave(ctx context.Context, c *harness.Cluster, p *localcluster.Peer) error {
	within, stop := context.WithTimeout(ctx, leaveTime)
	defer stop()
	if err := c.Remove(within, p); err != nil {
		return err
	}
	return settled(ctx, c)
}

// leadOne restarts leaders until one of some peers leads, and returns the leader.
func leadOne(ctx context.Context, c *harness.Cluster, some []*localcluster.Peer) (*localcluster.Peer, error) {
	for range leadTries {
		leader, err := c.Leader(ctx)
		if err != nil || slices.Contains(some, leader) {
			return leader, err
		}
		wait, stop := context.WithTimeout(ctx, stopTime)
		err = leader.Stop(wait)
		stop()
		if err := errors.Join(err, leader.Start(ctx)); err != nil {
			return nil, err
		}
		if err := settled(ctx, c); err != nil {
			return nil, err
		}
	}
	leader, err := c.Leader(ctx)
	c.Log.Info("none of the new peers leads", "tries", leadTries, "error", err)
	return leader, err
}
