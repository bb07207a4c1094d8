package bench

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast-metal/holdfast/bench/contest"
	"github.com/holdfast-metal/holdfast/bench/load"
	"github.com/holdfast-metal/holdfast/bench/report"
	"github.com/holdfast-metal/holdfast/internal/wait"
)

// The goals for keepalives right after the registration of their agents.
const (
	goalFreshP99  = 250 // ms
	goalFreshRate = 0.8 // of the settled rate
)

// fresh has a follower take keepalives of agents that have just registered, as fast as it answers
// them, and of the same agents once their machines have been polled.
func fresh(ctx context.Context, l *lab) error {
	leader, followers, err := l.roles(ctx)
	if err != nil {
		return err
	}
	agents, err := l.machineAgents(ctx, max(l.fresh, l.conns))
	if err != nil {
		return err
	}
	press, err := load.NewPressure(ctx, l.target(followers[0]), l.conns, agents)
	if err != nil {
		return err
	}
	defer press.Close()
	if _, err := l.register(ctx, agents); err != nil {
		return err
	}
	procs := map[string][]int{"follower": {followers[0].PID()}, "leader": {leader.PID()}}
	measure := func() (*contest.Outcome, error) {
		return contest.Series(ctx, l.rounds, l.slice, &contest.Contender{Name: "follower", Load: press, Procs: procs})
	}
	l.say("%d slices of %s right after that", l.rounds, l.slice)
	first, err := measure()
	if err != nil {
		return err
	}
	settle := l.settle
	if settle < 0 {
		settle = firstPollsTime(len(agents))
	}
	l.say("waiting for %s", settle)
	if err := wait.Sleep(ctx, settle); err != nil {
		return err
	}
	settled, err := measure()
	if err != nil {
		return err
	}
	if err := l.stillLeads(ctx, leader); err != nil {
		return err
	}
	compareFresh(l.report, len(agents), time.Duration(l.rounds)*l.slice, first, settled)
	return nil
}

// compareFresh adds the figures of both series to the report.
func compareFresh(r *report.Report, agents int, window time.Duration, first, settled *contest.Outcome) {
	when := fmt.Sprintf("the %s after %s registrations: ", window, report.Thousands(int64(agents)))
	rate := report.Mean(first.Rate) / report.Mean(settled.Rate)
	r.Add("fresh.rate_ratio", when+"keepalives through a follower : the same once settled", rate, "x",
		report.AtLeast(goalFreshRate))
	r.Add("fresh.first_ratio", "the same, the first slice", first.Rate[0]/report.Mean(settled.Rate), "x", nil)
	r.Add("fresh.rate", when+"keepalives through a follower", report.Mean(first.Rate), "/s", nil)
	r.Add("fresh.settled_rate", "the same once settled", report.Mean(settled.Rate), "/s", nil)
	r.Add("fresh.p99", when+"keepalive, p99", report.Quantile(report.Millis(first.Latencies), 0.99), "ms",
		report.AtMost(goalFreshP99))
	r.Add("fresh.first_p99", "the same, the first slice", report.Quantile(report.Millis(first.Slices[0]), 0.99), "ms", nil)
	r.Add("fresh.settled_p99", "the same once settled", report.Quantile(report.Millis(settled.Latencies), 0.99), "ms", nil)
	for _, p := range []string{"leader", "follower"} {
		r.Add("fresh.cpu_"+p, when+"processor time a keepalive, "+p, report.Mean(first.CPU[p]), "µs", nil)
		r.Add("fresh.settled_cpu_"+p, "the same once settled", report.Mean(settled.CPU[p]), "µs", nil)
	}
}
