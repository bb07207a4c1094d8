package fault

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/holdfast-metal/holdfast/internal/localcluster"
	"github.com/holdfast-metal/holdfast/test/robustness/harness"
)

func anyPeer(c *harness.Cluster, rng *rand.Rand) *localcluster.Peer {
	return c.Peers()[rng.IntN(len(c.Peers()))]
}

func killOne(_ context.Context, c *harness.Cluster, rng *rand.Rand) (Heal, error) {
	p := anyPeer(c, rng)
	return p.Start, p.Kill()
}

func killLeader(ctx context.Context, c *harness.Cluster, _ *rand.Rand) (Heal, error) {
	p, err := c.Leader(ctx)
	if err != nil {
		return nil, err
	}
	return p.Start, p.Kill()
}

// killAll simulates a power failure of all peers.
func killAll(_ context.Context, c *harness.Cluster, _ *rand.Rand) (Heal, error) {
	var errs []error
	for _, p := range c.Peers() {
		errs = append(errs, p.Kill())
	}
	return func(ctx context.Context) error {
		var errs []error
		for _, p := range c.Peers() {
			errs = append(errs, p.Start(ctx))
		}
		return errors.Join(errs...)
	}, errors.Join(errs...)
}

func pause(p *localcluster.Peer) (Heal, error) {
	return func(context.Context) error { return p.Resume() }, p.Pause()
}

func pauseOne(_ context.Context, c *harness.Cluster, rng *rand.Rand) (Heal, error) {
	return pause(anyPeer(c, rng))
}

// pauseLeader makes a leader that still considers itself the leader when it resumes.
func pauseLeader(ctx context.Context, c *harness.Cluster, _ *rand.Rand) (Heal, error) {
	p, err := c.Leader(ctx)
	if err != nil {
		return nil, err
	}
	return pause(p)
}

// wipe replaces the disk of a peer, which comes back under its old name.
func wipe(ctx context.Context, c *harness.Cluster, rng *rand.Rand) (Heal, error) {
	p := anyPeer(c, rng)
	if err := errors.Join(p.Kill(), p.Wipe(), p.Start(ctx)); err != nil {
		return nil, err
	}
	return nothing, nil
}

func nothing(context.Context) error { return nil }

// stopTime bounds the stop of a leader: the handover takes milliseconds, and calls in
// progress get 3 s.
const stopTime = 9 * time.Second

// handovers stops and starts leaders in a row, as a hasty rolling restart does.
func handovers(ctx context.Context, c *harness.Cluster, rng *rand.Rand) (Heal, error) {
	for range 3 + rng.IntN(3) {
		p, err := c.Leader(ctx)
		if err != nil {
			return nil, err
		}
		wait, stop := context.WithTimeout(ctx, stopTime)
		err = p.Stop(wait)
		stop()
		if errors.Is(err, context.DeadlineExceeded) {
			return nil, errors.Join(fmt.Errorf("%w: its goroutines are in its log", err), p.Dump())
		}
		if err := errors.Join(err, p.Start(ctx)); err != nil {
			return nil, fmt.Errorf("restart the leader: %w", err)
		}
		// It has to be back before the next one stops, or there is no majority.
		wait, stop = context.WithTimeout(ctx, 30*time.Second)
		err = c.WaitReady(wait)
		stop()
		if err != nil {
			return nil, err
		}
	}
	return nothing, nil
}
