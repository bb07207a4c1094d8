package bench

import (
	"context"
	"fmt"
	"os"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/holdfast-metal/holdfast/bench/load"
	"github.com/holdfast-metal/holdfast/bench/proc"
	"github.com/holdfast-metal/holdfast/bench/report"
	"github.com/holdfast-metal/holdfast/internal/localcluster"
	"github.com/holdfast-metal/holdfast/internal/wait"
)

// The goals of docs/performance.md for 100,000 agents with a keepalive every 60 s.
const (
	goalEntries = 1  // per second
	goalLeader  = 15 // % of one core
)

// firstPollRate is the number of machines per second that are polled for the first time
// (--poll-calls-per-second of peers; a poll makes several calls).
const firstPollRate = 200

// afterRegistration is the time after the registrations whose keepalives are reported separately.
const afterRegistration = 2 * time.Minute

// firstPollsTime returns the time until a number of machines have been polled once.
func firstPollsTime(machines int) time.Duration {
	return time.Duration(machines) * time.Second / firstPollRate
}

// steady registers a fleet, waits until every agent is ready, and measures the costs from then on.
func steady(ctx context.Context, l *lab) error {
	agents, err := l.poolAgents(ctx, l.agents)
	if err != nil {
		return err
	}
	rate, err := l.register(ctx, agents)
	if err != nil {
		return err
	}
	l.report.Add("fleet.registered", fmt.Sprintf("registrations, %s agents, each acknowledged after its commit",
		report.Thousands(int64(l.agents))), rate, "/s", nil)
	b := &load.Heartbeats{Agents: agents, Period: l.keepalive}
	for _, p := range l.cluster.Peers() {
		b.Peers = append(b.Peers, &load.Wires{Target: l.target(p)})
	}
	defer func() {
		for _, p := range b.Peers {
			p.Close()
		}
	}()
	g, gctx := errgroup.WithContext(ctx)
	running, stop := context.WithCancel(gctx)
	defer stop()
	g.Go(func() error {
		b.Run(running)
		return nil
	})
	g.Go(func() error {
		defer stop()
		return l.watch(running, b)
	})
	return g.Wait()
}

// watch waits for one period, in which every agent becomes ready, and then measures.
func (l *lab) watch(ctx context.Context, b *load.Heartbeats) error {
	leader, followers, err := l.roles(ctx)
	if err != nil {
		return err
	}
	if err := l.settling(ctx, b, leader, followers); err != nil {
		return err
	}
	l.say("watching them for %s", l.duration)
	before, after, err := l.watched(ctx, leader, followers)
	if err != nil {
		return err
	}
	if err := l.stillLeads(ctx, leader); err != nil {
		return err
	}
	latencies, failed, why := b.Reset()
	if failed > 0 {
		return fmt.Errorf("%d of %d keepalives failed, one of them because: %w", failed, failed+len(latencies), why)
	}
	connections := 0
	for _, p := range b.Peers {
		connections += p.Open()
	}
	l.reportSteady(before, after, latencies, connections)
	return nil
}

// settling waits until all agents have sent a keepalive, which makes their machines ready, and
// until the machines have been polled. It reports the first two minutes, when the peers are
// busiest.
func (l *lab) settling(
	ctx context.Context, b *load.Heartbeats, leader *localcluster.Peer, followers []*localcluster.Peer,
) error {
	first, settle := l.keepalive+2*time.Second, l.settle // the last keepalives are still on their way
	if settle < 0 {
		settle = max(0, firstPollsTime(l.agents)-l.keepalive)
	}
	busy := min(first+settle, afterRegistration)
	l.say("one keepalive each, within %s, which makes the machines ready; leaving them alone for %s after that",
		l.keepalive, settle)
	before, err := l.usage(ctx, leader, followers)
	if err != nil {
		return err
	}
	if err := wait.Sleep(ctx, busy); err != nil {
		return err
	}
	after, err := l.usage(ctx, leader, followers)
	if err != nil {
		return err
	}
	latencies, failed, why := b.Reset()
	r, when := l.report, fmt.Sprintf("the first %s after %s registrations: ", busy, report.Thousands(int64(l.agents)))
	own, follower := before.cores(after)
	r.Add("fleet.after.p50", when+"keepalive, from when it was due, p50", report.Quantile(report.Millis(latencies), 0.5),
		"ms", nil)
	r.Add("fleet.after.p99", "the same, p99", report.Quantile(report.Millis(latencies), 0.99), "ms", nil)
	r.Add("fleet.after.failed", when+"keepalives that failed", float64(failed), "", nil)
	r.Add("fleet.after.entries", when+"entries of the Raft log",
		float64(after.index-before.index)/after.at.Sub(before.at).Seconds(), "/s", nil)
	r.Add("fleet.after.leader_cpu", when+"leader, of one core", own, "%", nil)
	r.Add("fleet.after.follower_cpu", when+"a follower, of one core", follower, "%", nil)
	if failed > 0 {
		r.Note("one of the first keepalives failed because: %v", why)
	}
	if err := wait.Sleep(ctx, first+settle-busy); err != nil {
		return err
	}
	if _, failed, why = b.Reset(); failed > 0 {
		r.Note("%s later keepalives failed, one of them because: %v", report.Thousands(int64(failed)), why)
	}
	return nil
}

// usage is the resource usage of a cluster so far.
type usage struct {
	at        time.Time
	index     uint64 // of the log, applied on the leader
	leader    time.Duration
	followers []time.Duration
	driver    time.Duration
	memory    []float64 // MiB of each peer, the leader first
}

func (l *lab) usage(ctx context.Context, leader *localcluster.Peer, followers []*localcluster.Peer) (usage, error) {
	ready, err := leader.Readiness(ctx)
	for tries := 1; err != nil && tries < 10; tries++ { // a request may take too long on a busy machine
		ready, err = leader.Readiness(ctx)
	}
	u := usage{at: time.Now(), index: ready.AppliedIndex}
	if err != nil {
		return u, err
	}
	if u.leader, err = proc.ProcessorTime(leader.PID()); err != nil {
		return u, err
	}
	if u.driver, err = proc.ProcessorTime(os.Getpid()); err != nil {
		return u, err
	}
	for _, p := range followers {
		t, err := proc.ProcessorTime(p.PID())
		if err != nil {
			return u, err
		}
		u.followers = append(u.followers, t)
	}
	for _, p := range append([]*localcluster.Peer{leader}, followers...) {
		m, err := proc.HeldMiB(p.PID())
		if err != nil {
			return u, err
		}
		u.memory = append(u.memory, m)
	}
	return u, nil
}

// cores returns the processor time of the leader and of a follower since then, in % of a core.
func (u usage) cores(after usage) (leader, follower float64) {
	took := after.at.Sub(u.at).Seconds()
	var followers []float64
	for i := range after.followers {
		followers = append(followers, 100*(after.followers[i]-u.followers[i]).Seconds()/took)
	}
	return 100 * (after.leader - u.leader).Seconds() / took, report.Median(followers)
}

func (l *lab) reportSteady(before, after usage, latencies []time.Duration, connections int) {
	took := after.at.Sub(before.at)
	own, follower := before.cores(after)
	entries, cpu := report.AtMost(goalEntries), report.AtMost(goalLeader)
	if l.agents != fleetAgents || l.keepalive != fleetKeepalive {
		entries, cpu = nil, nil
		l.report.Note("the goals of the fleet are for %s agents with a keepalive every %s", report.Thousands(fleetAgents),
			fleetKeepalive)
	}
	fleet := fmt.Sprintf("%s agents with a keepalive every %s", report.Thousands(int64(l.agents)), l.keepalive)
	r := l.report
	r.Add("fleet.entries", fleet+": entries of the Raft log", float64(after.index-before.index)/took.Seconds(), "/s",
		entries)
	r.Add("fleet.leader_cpu", fleet+": leader, of one core", own, "%", cpu)
	r.Add("fleet.follower_cpu", "a follower meanwhile, of one core", follower, "%", nil)
	r.Add("fleet.rate", "keepalives taken, over all peers", float64(len(latencies))/took.Seconds(), "/s", nil)
	r.Add("fleet.p50", "keepalive of the fleet, from when it was due, p50",
		report.Quantile(report.Millis(latencies), 0.5), "ms", nil)
	r.Add("fleet.p99", "the same, p99", report.Quantile(report.Millis(latencies), 0.99), "ms", nil)
	r.Add("fleet.connections", "connections that the agents had to share, all peers", float64(connections), "", nil)
	r.Add("fleet.memory_leader", "memory of the leader", after.memory[0], "MiB", nil)
	r.Add("fleet.memory_follower", "memory of a follower", report.Median(after.memory[1:]), "MiB", nil)
	r.Add("fleet.driver_cpu", "load driver, of one core",
		100*(after.driver-before.driver).Seconds()/took.Seconds(), "%", nil)
}

// watched returns the usage before and after the duration of the benchmark.
func (l *lab) watched(
	ctx context.Context, leader *localcluster.Peer, followers []*localcluster.Peer,
) (before, after usage, err error) {
	if before, err = l.usage(ctx, leader, followers); err != nil {
		return before, after, err
	}
	if err := wait.Sleep(ctx, l.duration); err != nil {
		return before, after, err
	}
	after, err = l.usage(ctx, leader, followers)
	return before, after, err
}
