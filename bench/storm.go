package bench

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast-metal/holdfast/bench/crowd"
	"github.com/holdfast-metal/holdfast/bench/load"
	"github.com/holdfast-metal/holdfast/bench/report"
	"github.com/holdfast-metal/holdfast/client"
	"github.com/holdfast-metal/holdfast/internal/wait"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

const (
	downtime     = 10 * time.Second // of all peers
	stormWindow  = time.Second      // the agents reconnect at random times within it
	stormTimeout = 2 * time.Minute  // for all renewals; an agent's lease expires after five
)

// storm measures how all agents reconnect within a second, each on a connection of its own: after
// all peers were killed, and after the leader was.
func storm(ctx context.Context, l *lab) error {
	agents, err := l.poolAgents(ctx, l.storm)
	if err != nil {
		return err
	}
	if _, err := l.register(ctx, agents); err != nil {
		return err
	}
	var peers []load.Target
	for _, p := range l.cluster.Peers() {
		peers = append(peers, l.target(p))
	}
	c := crowd.New(agents, peers)
	defer c.Close()
	l.say("all agents connect and send a keepalive")
	if calm := c.Reconnect(ctx, 10*stormWindow, stormTimeout); calm.Renewed() != len(agents) {
		return fmt.Errorf("%d of %d agents could not connect before the outage, for example: %w",
			len(agents)-calm.Renewed(), len(agents), calm.Err())
	}

	l.say("killing all peers, for %s", downtime)
	if err := l.restartAll(ctx); err != nil {
		return err
	}
	c.Disconnect(peers...)
	l.say("%s agents reconnect within %s", report.Thousands(int64(len(agents))), stormWindow)
	after := c.Reconnect(ctx, stormWindow, stormTimeout)
	if err := l.reportStorm(ctx, "storm.all", "all peers killed", after); err != nil {
		return err
	}

	leader, _, err := l.roles(ctx)
	if err != nil {
		return err
	}
	l.say("killing the leader, %s: all agents send a keepalive within %s", leader.ID, stormWindow)
	if err := leader.Kill(); err != nil {
		return err
	}
	c.Disconnect(l.target(leader))
	after = c.Reconnect(ctx, stormWindow, stormTimeout)
	if err := leader.Start(ctx); err != nil {
		return err
	}
	return l.reportStorm(ctx, "storm.leader", "leader killed", after)
}

// restartAll kills all peers, waits, and starts them again.
func (l *lab) restartAll(ctx context.Context) error {
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

// reportStorm adds the figures of a reconnect to the report.
func (l *lab) reportStorm(ctx context.Context, id, what string, c crowd.Renewals) error {
	n := len(c)
	expired, err := l.expired(ctx)
	if err != nil {
		return err
	}
	if c.Renewed() < n {
		l.report.Note("%s: %s agents were not renewed within %s, for example: %v", what,
			report.Thousands(int64(n-c.Renewed())), stormTimeout, c.Err())
	} else if err := c.Err(); err != nil {
		l.report.Note("%s: one of the errors of failed tries: %v", what, err)
	}
	r := l.report
	all := fmt.Sprintf("%s agents back within %s, %s: ", report.Thousands(int64(n)), stormWindow, what)
	r.Add(id+".renewed", all+"renewed", float64(c.Renewed()), "", report.AtLeast(float64(n)))
	r.Add(id+".expired", all+"expired", float64(expired), "", report.AtMost(0))
	r.Add(id+".done", all+"until the last one was renewed", c.Done().Seconds(), "s", nil)
	r.Add(id+".p50", all+"from its first try to its renewal, p50",
		report.Quantile(report.Millis(c.Latencies()), 0.5), "ms", nil)
	r.Add(id+".p99", "the same, p99", report.Quantile(report.Millis(c.Latencies()), 0.99), "ms", nil)
	r.Add(id+".errors", "failed tries", float64(c.Failed()), "", nil)
	low, high, distinct := c.Spread()
	r.Add(id+".interval_min", "shortest interval to the next keepalive", low.Seconds(), "s", nil)
	r.Add(id+".interval_max", "longest interval to the next keepalive", high.Seconds(), "s", nil)
	r.Add(id+".intervals", "different intervals assigned", float64(distinct), "", nil)
	return nil
}

// expired returns the number of machines whose agents have expired.
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
			return 0, fmt.Errorf("count expired agents: %w", err)
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
