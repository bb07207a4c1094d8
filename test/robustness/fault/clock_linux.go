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

// Certificates begin an hour before they were made: with a clock further back than that they are
// refused, as they should be.
const clockMost = 55 * time.Minute

// clockJump sets the wall clock of the leader, of another peer, or of all to different times, far
// off or by seconds, and sets some of them back and forth while it lasts; mending it is a jump
// back. Nothing that takes time may be shorter for it, and nothing may wait until the clock comes
// by again.
func clockJump(ctx context.Context, c *harness.Cluster, rng *rand.Rand) (Heal, error) {
	leader, err := c.Leader(ctx)
	if err != nil {
		return nil, err
	}
	var set []*harness.Clock
	restore := func(ctx context.Context) error {
		var errs []error
		for _, s := range set {
			errs = append(errs, s.Restore(ctx))
		}
		return errors.Join(errs...)
	}
	var stop []func() error
	for _, p := range clocksOf(c, leader, rng) {
		off := clockOffset(rng)
		clock, err := harness.SetClock(ctx, p, off)
		if err != nil {
			return nil, errors.Join(err, restore(context.WithoutCancel(ctx)))
		}
		set = append(set, clock)
		if err := seen(ctx, c, p, off); err != nil {
			return nil, errors.Join(err, restore(context.WithoutCancel(ctx)))
		}
		drifts := rng.IntN(2) == 0
		c.Log.Info("the clock is set", "peer", p.ID, "leads", p == leader, "off", off, "drifts", drifts)
		if drifts {
			stop = append(stop, drift(clock, off, rng.IntN(2) == 0))
		}
	}
	return func(ctx context.Context) error {
		var errs []error
		for _, s := range stop {
			errs = append(errs, s())
		}
		return errors.Join(append(errs, restore(ctx))...)
	}, nil
}

func clocksOf(c *harness.Cluster, leader *localcluster.Peer, rng *rand.Rand) []*localcluster.Peer {
	switch rng.IntN(3) {
	case 0:
		return c.Peers()
	case 1:
		return []*localcluster.Peer{anyPeer(c, rng)}
	}
	return []*localcluster.Peer{leader}
}

// clockOffset is as often a matter of seconds as of almost an hour.
func clockOffset(rng *rand.Rand) time.Duration {
	off := 2*time.Second + rand1(rng, 20*time.Second)
	if rng.IntN(2) == 0 {
		off = clockMost - rand1(rng, 5*time.Minute)
	}
	if rng.IntN(2) == 0 {
		return -off
	}
	return off
}

// seen makes sure that the peer believes it: a clock that did not jump would be no fault.
func seen(ctx context.Context, c *harness.Cluster, p *localcluster.Peer, want time.Duration) error {
	got, err := c.ClockOf(ctx, p)
	if err != nil {
		return err
	}
	if d := got - want; d < -2*time.Second || d > 2*time.Second {
		return fmt.Errorf("the clock of peer %s is off by %s, it was set off by %s: the fault was none", p.ID, got, want)
	}
	return nil
}

// drift makes a clock go at three times its pace, or backwards as fast as it should go forwards:
// corrections as drastic as they come. It ends with the function that it gives.
func drift(clock *harness.Clock, off time.Duration, forward bool) (stop func() error) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	began := time.Now()
	go func() {
		for sleep(ctx, 20*time.Millisecond) == nil {
			by := 2 * time.Since(began)
			if !forward {
				by = -by
			}
			if err := clock.Move(off + by); err != nil {
				done <- err
				return
			}
		}
		done <- nil
	}()
	return func() error {
		cancel()
		return <-done
	}
}
