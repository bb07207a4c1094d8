package fault

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/holdfast-metal/holdfast/internal/localcluster"
	"github.com/holdfast-metal/holdfast/internal/wait"
	"github.com/holdfast-metal/holdfast/test/robustness/harness"
)

// Certificates are valid from an hour before their creation: a clock further back refuses
// them, as it should.
const clockMost = 55 * time.Minute

// clockJump sets the wall clock of the leader, of another peer, or of all to different
// times, far off or by seconds, and sets some of them back and forth meanwhile. The repair
// is a jump back. No timeout may end early because of it, and none may wait until the clock
// has caught up.
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

// clockOffset returns seconds as often as almost an hour.
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

// seen checks that the peer has noticed the jump: otherwise the fault had no effect.
func seen(ctx context.Context, c *harness.Cluster, p *localcluster.Peer, want time.Duration) error {
	got, err := c.ClockOf(ctx, p)
	if err != nil {
		return err
	}
	if d := got - want; d < -2*time.Second || d > 2*time.Second {
		return fmt.Errorf("the clock of peer %s is off by %s, it was set off by %s: the fault had no effect",
			p.ID, got, want)
	}
	return nil
}

// drift makes a clock run at three times its rate, or backwards at its normal rate, which
// are extreme corrections. It ends with the returned function.
func drift(clock *harness.Clock, off time.Duration, forward bool) (stop func() error) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	began := time.Now()
	go func() {
		for wait.Sleep(ctx, 20*time.Millisecond) == nil {
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
