// Package crowd reconnects many agents at the same time and measures how long it takes.
//
// It must not start or stop peers.
package crowd

import (
	"context"
	"math/rand/v2"
	"net/http"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/holdfast-metal/holdfast/bench/load"
	"github.com/holdfast-metal/holdfast/internal/wait"
)

// Backoff of an agent if all servers have failed: the first, doubled each time, up to the last.
const (
	firstBackoff = time.Second
	lastBackoff  = 30 * time.Second
)

// Crowd is a set of agents that have a connection of their own each, as real ones do.
type Crowd struct {
	agents []load.Agent
	peers  []load.Target
	wires  []*load.Wire // nil: not connected
}

// New returns a Crowd without connections. Each agent tries the peers in their order, and begins
// with another one.
func New(agents []load.Agent, peers []load.Target) *Crowd {
	return &Crowd{agents: agents, peers: peers, wires: make([]*load.Wire, len(agents))}
}

// Close closes all connections.
func (c *Crowd) Close() {
	for _, w := range c.wires {
		if w != nil {
			w.Close()
		}
	}
}

// Disconnect closes the connections to dead peers, because agents notice a lost connection before
// their next keepalive is due.
func (c *Crowd) Disconnect(dead ...load.Target) {
	for i, w := range c.wires {
		if w != nil && slices.ContainsFunc(dead, func(t load.Target) bool { return t.Addr == w.Addr() }) {
			w.Close()
			c.wires[i] = nil
		}
	}
}

// Reconnect sends a keepalive of each agent from a random time within the window, and repeats it
// until it succeeds or the timeout ends. Agents without a connection make one.
func (c *Crowd) Reconnect(ctx context.Context, window, timeout time.Duration) Renewals {
	ctx, stop := context.WithTimeout(ctx, timeout)
	defer stop()
	out := make(Renewals, len(c.agents))
	var g errgroup.Group
	began := time.Now()
	for i := range c.agents {
		g.Go(func() error {
			if wait.Sleep(ctx, chance(window)) != nil {
				return nil
			}
			out[i] = c.renew(ctx, i)
			out[i].at = time.Since(began)
			return nil
		})
	}
	_ = g.Wait() // there are no errors
	return out
}

// renew tries one server after the other, as an agent does. If all have failed, it waits, each time
// twice as long.
func (c *Crowd) renew(ctx context.Context, i int) renewal {
	var r renewal
	began := time.Now()
	pause := firstBackoff
	for try := 0; ; try++ {
		p := c.peers[(i+try)%len(c.peers)]
		answer, err := c.try(ctx, i, p)
		if err == nil {
			r.took, r.interval = time.Since(began), load.Interval(answer)
			return r
		}
		r.failed, r.err = r.failed+1, err
		if (try+1)%len(c.peers) != 0 {
			continue
		}
		if wait.Sleep(ctx, pause/2+chance(pause/2)) != nil {
			return r
		}
		pause = min(2*pause, lastBackoff)
	}
}

// try sends one keepalive to one peer.
func (c *Crowd) try(ctx context.Context, i int, p load.Target) ([]byte, error) {
	w := c.wires[i]
	if w == nil || w.Addr() != p.Addr {
		if w != nil {
			w.Close()
			c.wires[i] = nil
		}
		var err error
		if w, err = p.Dial(ctx); err != nil {
			return nil, err
		}
		c.wires[i] = w
	}
	status, answer, err := w.Call(c.agents[i].Keepalive(nil, p.Addr), nil)
	if err != nil {
		w.Close()
		c.wires[i] = nil
		if w.Stale(err) {
			return c.try(ctx, i, p) // on a new connection
		}
		return nil, err
	}
	if status != http.StatusOK {
		return nil, load.Wrong(status, answer, nil)
	}
	return answer, nil
}

// chance returns a random time below limit.
func chance(limit time.Duration) time.Duration {
	return rand.N(limit) //nolint:gosec // no secret
}
