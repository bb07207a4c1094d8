package fault

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/holdfast-metal/holdfast/test/robustness/harness"
	"github.com/holdfast-metal/holdfast/test/robustness/wire"
)

// Packets between a peer and the driver's host, which has the clients and the fake
// hardware, always arrive. So a peer that is cut off from the others still reaches clients,
// which is the dangerous case.

// onLinks sets links between peers. The returned Heal clears them, and fails if no packet
// was affected.
func onLinks(c *harness.Cluster, link func(from, to int) wire.Link) (Heal, error) {
	before, lossy := c.Net.Lost(), false
	for from := range c.Peers() {
		for to := range c.Peers() {
			if from == to {
				continue
			}
			l := link(from, to)
			lossy = lossy || l.Cut || l.Loss > 0 || l.Reject
			c.Net.Set(from, to, l)
		}
	}
	return func(context.Context) error {
		c.Net.Clear()
		if lossy && c.Net.Lost() == before {
			return errors.New("the network lost no packet, although it should: the fault had no effect")
		}
		return nil
	}, nil
}

func isolate(c *harness.Cluster, i int) (Heal, error) {
	return onLinks(c, func(from, to int) wire.Link { return wire.Link{Cut: from == i || to == i} })
}

func isolateOne(_ context.Context, c *harness.Cluster, rng *rand.Rand) (Heal, error) {
	return isolate(c, rng.IntN(len(c.Peers())))
}

func isolateLeader(ctx context.Context, c *harness.Cluster, _ *rand.Rand) (Heal, error) {
	i, err := c.LeaderNow(ctx)
	if err != nil {
		return nil, err
	}
	return isolate(c, i)
}

// isolateAndKill kills a leader while it is cut off with entries that it has not
// replicated.
func isolateAndKill(ctx context.Context, c *harness.Cluster, rng *rand.Rand) (Heal, error) {
	i, err := c.LeaderNow(ctx)
	if err != nil {
		return nil, err
	}
	heal, err := isolate(c, i)
	if err != nil {
		return nil, err
	}
	t := time.NewTimer(rand1(rng, time.Second))
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
	p := c.Peers()[i]
	return func(ctx context.Context) error { return errors.Join(heal(ctx), p.Start(ctx)) }, p.Kill()
}

// oneWay cuts either the sending or the receiving direction of one peer.
func oneWay(_ context.Context, c *harness.Cluster, rng *rand.Rand) (Heal, error) {
	i, incoming := rng.IntN(len(c.Peers())), rng.IntN(2) == 0
	return onLinks(c, func(from, to int) wire.Link {
		return wire.Link{Cut: incoming && to == i || !incoming && from == i}
	})
}

// ring lets each peer send only to the next one: no connection works.
func ring(_ context.Context, c *harness.Cluster, _ *rand.Rand) (Heal, error) {
	n := len(c.Peers())
	return onLinks(c, func(from, to int) wire.Link { return wire.Link{Cut: to != (from+1)%n} })
}

// bridge cuts two peers from each other, while both reach the third.
func bridge(_ context.Context, c *harness.Cluster, rng *rand.Rand) (Heal, error) {
	a := rng.IntN(len(c.Peers()))
	b := (a + 1) % len(c.Peers())
	return onLinks(c,
		func(from, to int) wire.Link { return wire.Link{Cut: from == a && to == b || from == b && to == a} })
}

func loss(_ context.Context, c *harness.Cluster, _ *rand.Rand) (Heal, error) {
	return onLinks(c, func(int, int) wire.Link { return wire.Link{Loss: 0.3} })
}

// slowLink puts one peer behind a bad line.
func slowLink(_ context.Context, c *harness.Cluster, rng *rand.Rand) (Heal, error) {
	i, delay := rng.IntN(len(c.Peers())), 50*time.Millisecond+rand1(rng, 250*time.Millisecond)
	return onLinks(c, func(from, to int) wire.Link {
		if from == i || to == i {
			return wire.Link{Delay: delay}
		}
		return wire.Link{}
	})
}

// narrowLink puts one peer behind a line of 32 to 256 KiB a second.
func narrowLink(_ context.Context, c *harness.Cluster, rng *rand.Rand) (Heal, error) {
	i, rate := rng.IntN(len(c.Peers())), 32<<10+rng.IntN(224<<10)
	return onLinks(c, func(from, to int) wire.Link {
		if from == i || to == i {
			return wire.Link{Rate: rate}
		}
		return wire.Link{}
	})
}

// rejectDirection restarts a follower behind a firewall that refuses its connections to the
// leader, and accepts those of the leader. The follower must not depose a leader whose
// heartbeats arrive.
func rejectDirection(ctx context.Context, c *harness.Cluster, rng *rand.Rand) (Heal, error) {
	leader, err := c.LeaderNow(ctx)
	if err != nil {
		return nil, err
	}
	n := len(c.Peers())
	follower := (leader + 1 + rng.IntN(n-1)) % n
	p := c.Peers()[follower]
	if err := p.Kill(); err != nil {
		return nil, err
	}
	heal, err := onLinks(c, func(from, to int) wire.Link { return wire.Link{Reject: from == follower && to == leader} })
	if err != nil {
		return nil, err
	}
	return heal, p.Start(ctx)
}

// latency simulates three sites with one peer each.
func latency(_ context.Context, c *harness.Cluster, rng *rand.Rand) (Heal, error) {
	return onLinks(c, func(int, int) wire.Link {
		return wire.Link{Delay: 5*time.Millisecond + rand1(rng, 30*time.Millisecond)}
	})
}
