package bench

import (
	"context"
	"errors"

	"github.com/holdfast-metal/holdfast/bench/contest"
	"github.com/holdfast-metal/holdfast/bench/report"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

const (
	goalPlan = 25  // ms, p50
	planRuns = 200 // machines of the first slice
)

// fiveSteps is a plan that turns the power off and on, and observes the machine before, between
// and after.
func fiveSteps() []*holdfastv1.Step {
	power := func(action string) *holdfastv1.Step {
		return &holdfastv1.Step{Name: action, Kind: &holdfastv1.Step_Power{Power: &holdfastv1.Power{Action: action,
			Force: true}}}
	}
	return []*holdfastv1.Step{inspect("before"), power("off"), inspect("between"), power("on"), inspect("after")}
}

// setPlan has one client start runs of five steps, and wait for the end of each.
func setPlan(ctx context.Context, l *lab, do turns) (err error) {
	if err := l.plan(ctx, fiveSteps()...); err != nil {
		return err
	}
	procs, leader, _, err := l.servers(ctx)
	if err != nil {
		return err
	}
	c := &calls{lab: l, procs: procs}
	defer func() { err = errors.Join(err, c.close()) }()
	machines := &machinePool{lab: l}
	return l.watching(ctx, func(ctx context.Context, e *ends) error {
		made, err := c.to(leader, 1, machines.endToEndRun(e))
		if err != nil {
			return err
		}
		c.add("plan", &starter{Calls: made, machinePool: machines, want: planRuns})
		return do(ctx, l, c.all)
	})
}

// planRun measures setPlan, and reports the time of a run.
func planRun(ctx context.Context, l *lab) error {
	return setPlan(ctx, l, func(ctx context.Context, l *lab, all []*contest.Contender) error {
		out, err := contest.Interleave(ctx, l.rounds, l.slice, all)
		if err != nil {
			return err
		}
		took, o := report.Millis(out["plan"].Latencies), out["plan"]
		l.report.Add("plan.p50", "a run of 5 steps, one client, p50", report.Quantile(took, 0.5), "ms",
			report.AtMost(goalPlan))
		l.report.Add("plan.p99", "a run of 5 steps, p99", report.Quantile(took, 0.99), "ms", nil)
		l.report.Add("plan.servers_cpu", "processor time of all peers a run of 5 steps", report.Median(o.CPU["servers"]),
			"µs", nil)
		return nil
	})
}
