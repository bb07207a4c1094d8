package bench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/holdfast-metal/holdfast/client"
	"github.com/holdfast-metal/holdfast/internal/bench/load"
	"github.com/holdfast-metal/holdfast/internal/bench/report"
	"github.com/holdfast-metal/holdfast/internal/wait"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

const (
	downtime     = 10 * time.Second // all peers are down so long
	stormWindow  = time.Second      // all agents come back within it
	stormTimeout = 2 * time.Minute  // to be done with it; a machine is lost after five
	firstBackoff = time.Second      // of an agent whose every server has failed, then twice as long each time
	lastBackoff  = 30 * time.Second
)

// storm has all agents come back within a second, each on a connection of its own, after all peers
// were killed and then after the leader was.
func storm(ctx context.Context, l *lab) error {
	agents, err := l.poolAgents(ctx, l.storm)
	if err != nil {
		return err
	}
	if _, err := l.register(ctx, agents); err != nil {
		return err
	}
	crowd := &crowd{agents: agents, wires: make([]*load.Wire, len(agents))}
	for _, p := range l.cluster.Peers() {
		crowd.peers = append(crowd.peers, l.target(p))
	}
	defer crowd.close()
	l.say("all agents connect and beat once")
	if calm := crowd.come(ctx, 10*stormWindow); calm.renewed() != len(agents) {
		return fmt.Errorf("%d of %d agents could not connect before the outage, one of them because: %w",
			len(agents)-calm.renewed(), len(agents), calm.err())
	}

	l.say("killing all peers, for %s", downtime)
	if err := l.everybodyDown(ctx); err != nil {
		return err
	}
	crowd.noticed(crowd.peers...)
	l.say("%s agents come back within %s", report.Thousands(int64(len(agents))), stormWindow)
	after := crowd.come(ctx, stormWindow)
	if err := l.reportStorm(ctx, "storm.all", "all peers killed", after); err != nil {
		return err
	}

	leader, _, err := l.roles(ctx)
	if err != nil {
		return err
	}
	l.say("killing the leader, %s, and all agents beat within %s", leader.ID, stormWindow)
	if err := leader.Kill(); err != nil {
		return err
	}
	crowd.noticed(l.target(leader))
	after = crowd.come(ctx, stormWindow)
	if err := leader.Start(ctx); err != nil {
		return err
	}
	return l.reportStorm(ctx, "storm.leader", "leader killed", after)
}

// everybodyDown kills all peers, waits, and starts them again.
func (l *lab) everybodyDown(ctx context.Context) error {
	for _, p := range l.cluster.Peers() {
		if err := p.Kill(); err != nil {
			return err
		}
	}
	if err := wait.Sleep(ctx, downtime); err != nil {
		return err
	}
	for _, p := range l.cluster.Peers() {
		if err := p.Start(ctx); err != nil {
			return err
		}
	}
	ctx, stop := context.WithTimeout(ctx, readyTimeout)
	defer stop()
	return l.cluster.WaitReady(ctx)
}

func (l *lab) reportStorm(ctx context.Context, id, what string, c *coming) error {
	n := len(c.renewals)
	expired, err := l.expired(ctx)
	if err != nil {
		return err
	}
	if c.renewed() < n {
		l.report.Note("%s: %s agents were not renewed within %s, one of them because: %v", what,
			report.Thousands(int64(n-c.renewed())), stormTimeout, c.err())
	} else if why := c.err(); why != nil {
		l.report.Note("%s: one of the tries that failed did so because: %v", what, why)
	}
	r := l.report
	who := fmt.Sprintf("%s agents back within %s, %s: ", report.Thousands(int64(n)), stormWindow, what)
	r.Add(id+".renewed", who+"renewed", float64(c.renewed()), "", report.AtLeast(float64(n)))
	r.Add(id+".expired", who+"expired", float64(expired), "", report.AtMost(0))
	r.Add(id+".done", who+"until the last one was renewed", c.done.Seconds(), "s", nil)
	r.Add(id+".p50", who+"from its first try to its renewal, p50",
		report.Quantile(report.Millis(c.latencies()), 0.5), "ms", nil)
	r.Add(id+".p99", "the same, p99", report.Quantile(report.Millis(c.latencies()), 0.99), "ms", nil)
	r.Add(id+".errors", "tries that failed and were made again", float64(c.failed()), "", nil)
	low, high, distinct := c.spread()
	r.Add(id+".interval_min", "interval to the next keepalive, least", low.Seconds(), "s", nil)
	r.Add(id+".interval_max", "interval to the next keepalive, most", high.Seconds(), "s", nil)
	r.Add(id+".intervals", "different intervals handed out", float64(distinct), "", nil)
	return nil
}

// expired counts the machines whose agents were declared lost.
func (l *lab) expired(ctx context.Context) (int, error) {
	c, err := client.Dial(client.Config{Addrs: l.cluster.Addrs(), TLS: l.cluster.TLS()})
	if err != nil {
		return 0, err
	}
	defer func() { _ = c.Close() }()
	n := 0
	req := &holdfastv1.ListMachinesRequest{PageSize: 500}
	for {
		page, err := c.Machines().ListMachines(ctx, req)
		if err != nil {
			return 0, fmt.Errorf("count the machines that were lost: %w", err)
		}
		for _, m := range page.GetMachines() {
			if m.GetStatus().GetAgentState() == holdfastv1.Agent_EXPIRED {
				n++
			}
		}
		if req.PageToken = page.GetNextPageToken(); req.PageToken == "" {
			return n, nil
		}
	}
}

// crowd is agents that have a connection of their own each, as real ones do.
type crowd struct {
	agents []load.Agent
	peers  []load.Target
	wires  []*load.Wire // nil: not connected
}

func (c *crowd) close() {
	for _, w := range c.wires {
		if w != nil {
			w.Close()
		}
	}
}

// noticed ends the connections to peers that are dead: their agents have seen it before they have
// anything to say.
func (c *crowd) noticed(dead ...load.Target) {
	for i, w := range c.wires {
		if w != nil && slices.ContainsFunc(dead, func(t load.Target) bool { return t.Addr == w.Addr() }) {
			w.Close()
			c.wires[i] = nil
		}
	}
}

// renewal is how one agent fared.
type renewal struct {
	took     time.Duration // from its first try; zero: never renewed
	failed   int           // tries
	err      error         // of the last try that failed
	interval time.Duration
}

// coming is how all fared.
type coming struct {
	renewals []renewal
	done     time.Duration // from the start to the last renewal
}

// come has all agents send a keepalive, each from a random moment of the window on and until it is
// taken. A connection that is good is used again; who has none, or has lost it, connects.
func (c *crowd) come(ctx context.Context, window time.Duration) *coming {
	ctx, stop := context.WithTimeout(ctx, stormTimeout)
	defer stop()
	out := &coming{renewals: make([]renewal, len(c.agents))}
	var mu sync.Mutex
	var g errgroup.Group
	began := time.Now()
	for i := range c.agents {
		g.Go(func() error {
			if wait.Sleep(ctx, chance(window)) != nil {
				return nil
			}
			out.renewals[i] = c.insist(ctx, i)
			mu.Lock()
			defer mu.Unlock()
			out.done = max(out.done, time.Since(began))
			return nil
		})
	}
	_ = g.Wait() // there are no errors
	return out
}

// insist tries as an agent does: one server after the other, and when all have failed, after a
// pause that gets longer.
func (c *crowd) insist(ctx context.Context, i int) renewal {
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

// try is one keepalive to one peer.
func (c *crowd) try(ctx context.Context, i int, p load.Target) ([]byte, error) {
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

func (c *coming) renewed() int { return len(c.latencies()) }

func (c *coming) latencies() []time.Duration {
	var all []time.Duration
	for _, r := range c.renewals {
		if r.took > 0 {
			all = append(all, r.took)
		}
	}
	return all
}

// failed counts the tries that failed.
func (c *coming) failed() int {
	n := 0
	for _, r := range c.renewals {
		n += r.failed
	}
	return n
}

// err is why one of the tries failed; nil if none has.
func (c *coming) err() error {
	for _, r := range c.renewals {
		if r.err != nil {
			return r.err
		}
	}
	return nil
}

// spread describes the intervals that the peers assigned.
func (c *coming) spread() (low, high time.Duration, distinct int) {
	seen := map[time.Duration]bool{}
	for _, r := range c.renewals {
		if r.took == 0 {
			continue
		}
		if len(seen) == 0 {
			low, high = r.interval, r.interval
		}
		seen[r.interval] = true
		low, high = min(low, r.interval), max(high, r.interval)
	}
	return low, high, len(seen)
}

// chance is any time below limit.
func chance(limit time.Duration) time.Duration {
	return rand.N(limit) //nolint:gosec // no secret
}
