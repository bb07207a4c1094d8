package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc"

	"github.com/holdfast-metal/holdfast/internal/bench/contest"
	"github.com/holdfast-metal/holdfast/internal/bench/report"
)

// wholeRuns has clients start runs one after the other, and read machines, in turn with Ironic that
// deploys nodes, and reads them.
func wholeRuns(ctx context.Context, l *lab) (err error) {
	if err := l.plan(ctx, powerCycle()); err != nil {
		return err
	}
	leader, _, err := l.roles(ctx)
	if err != nil {
		return err
	}
	rival, err := l.rivalIronic(ctx)
	if err != nil {
		return err
	}
	if rival != nil {
		defer func() { err = errors.Join(err, rival.close()) }()
	}
	at, creds, procs := []string{leader.GRPCAddr}, l.cluster.Credentials(), map[string][]int{"leader": {leader.PID()}}
	machines := &stock{lab: l}
	return l.watching(ctx, func(ctx context.Context, e *ends) (err error) {
		whole, err := contest.NewCalls(wholeClients, creds, at, machines.wholeRun(e))
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, whole.Close()) }()
		gets, err := contest.NewCalls(wholeClients, creds, at, getMachine(false))
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, gets.Close()) }()
		if err := machines.fill(ctx, readFleet); err != nil {
			return err
		}
		all := []*contest.Contender{
			{Name: "runs", Load: &starter{Calls: whole, stock: machines, want: readFleet}, Procs: procs, Clients: wholeClients},
			{Name: "gets", Load: gets, Procs: procs},
		}
		if rival != nil {
			all = append(all, rival.contenders(l.slice)...)
		}
		l.say("%d rounds of %s each: %d clients", l.rounds, l.slice, wholeClients)
		out, err := contest.Interleave(ctx, l.rounds, l.slice, all)
		if err != nil {
			return err
		}
		if err := l.stillLeads(ctx, leader); err != nil {
			return err
		}
		reportWhole(l.report, out)
		return nil
	})
}

// wholeRun starts a run on a machine that had none and waits for its end.
func (s *stock) wholeRun(e *ends) func(context.Context, grpc.ClientConnInterface) error {
	return func(ctx context.Context, conn grpc.ClientConnInterface) error {
		id, err := s.take()
		if err != nil {
			return err
		}
		end := e.of(id)
		if err := startRun(ctx, conn, id); err != nil {
			return err
		}
		_, err = ended(ctx, end)
		return err
	}
}

// The names of what Ironic is measured in.
const (
	ironicDeploys = "Ironic's deployments"
	ironicGets    = "Ironic's reads"
)

// contenders are Ironic that deploys, and that is read.
func (i *ironic) contenders(slice time.Duration) []*contest.Contender {
	first := wholeClients + int(ironicFirst*slice.Seconds())
	return []*contest.Contender{
		{Name: ironicDeploys, Load: &deployments{ironic: i, want: first}, Procs: i.procs(), Clients: wholeClients},
		{Name: ironicGets, Load: nodeReads{i}, Procs: i.procs()},
	}
}

// whole puts what was found into the report. There is a verdict only against an Ironic that was
// measured beside it.
func reportWhole(r *report.Report, out map[string]*contest.Outcome) {
	runs, gets := out["runs"], out["gets"]
	took, with := report.Millis(runs.Latencies), fmt.Sprintf(", %d clients", wholeClients)
	deploys, reads := out[ironicDeploys], out[ironicGets]
	if deploys != nil && reads != nil {
		r.Add("runs.vs_ironic", "whole runs on fake machines : deployments of Ironic"+with,
			report.Ratio(runs.Rate, deploys.Rate), "x", report.AtLeast(goalRuns))
		r.Add("runs.gets_vs_ironic", "machines read, linearizably, on the leader : nodes read of Ironic"+with,
			report.Ratio(gets.Rate, reads.Rate), "x", report.AtLeast(goalGets))
	}
	r.Add("runs.rate", "whole runs on fake machines"+with, report.Median(runs.Rate), "/s", nil)
	r.Add("runs.p50", "a whole run, p50", report.Quantile(took, 0.5), "ms", nil)
	r.Add("runs.p99", "a whole run, p99", report.Quantile(took, 0.99), "ms", nil)
	r.Add("runs.leader_cpu", "processor time of the leader a run", report.Median(runs.CPU["leader"]), "µs", nil)
	r.Add("runs.gets", "machines read, linearizably, on the leader"+with, report.Median(gets.Rate), "/s", nil)
	if deploys == nil || reads == nil {
		return
	}
	theirs := report.Millis(deploys.Latencies)
	r.Add("runs.ironic_rate", "deployments of Ironic"+with, report.Median(deploys.Rate), "/s", nil)
	r.Add("runs.ironic_p50", "a deployment of Ironic, p50", report.Quantile(theirs, 0.5), "ms", nil)
	r.Add("runs.ironic_p99", "a deployment of Ironic, p99", report.Quantile(theirs, 0.99), "ms", nil)
	r.Add("runs.ironic_conductor_cpu", "processor time of the conductor a deployment",
		report.Median(deploys.CPU["conductor"])/1000, "ms", nil)
	r.Add("runs.ironic_api_cpu", "processor time of the API a deployment, with the looks of those who wait",
		report.Median(deploys.CPU["api"])/1000, "ms", nil)
	r.Add("runs.ironic_gets", "nodes read of Ironic"+with, report.Median(reads.Rate), "/s", nil)
	r.Add("runs.ironic_get_cpu", "processor time of the API a node read", report.Median(reads.CPU["api"])/1000, "ms", nil)
}
