package bench

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/grpc"

	"github.com/holdfast-metal/holdfast/bench/contest"
	"github.com/holdfast-metal/holdfast/bench/report"
	"github.com/holdfast-metal/holdfast/bench/rival"
)

// endToEndRuns measures whole runs and reads of machines, in turn with deployments and reads of
// nodes of Ironic.
func endToEndRuns(ctx context.Context, l *lab) (err error) {
	if err := l.plan(ctx, powerCycle()); err != nil {
		return err
	}
	procs, leader, _, err := l.servers(ctx)
	if err != nil {
		return err
	}
	other, err := l.rivalIronic(ctx)
	if err != nil {
		return err
	}
	if other != nil {
		defer func() { err = errors.Join(err, other.Close()) }()
	}
	at, creds := []string{leader.GRPCAddr}, l.cluster.Credentials()
	machines := &machinePool{lab: l}
	return l.watching(ctx, func(ctx context.Context, e *ends) (err error) {
		whole, err := contest.NewCalls(endToEndClients, creds, at, machines.endToEndRun(e))
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, whole.Close()) }()
		gets, err := contest.NewCalls(endToEndClients, creds, at, getMachine(false))
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, gets.Close()) }()
		if err := machines.fill(ctx, readFleet); err != nil {
			return err
		}
		all := []*contest.Contender{
			{Name: "runs", Load: &starter{Calls: whole, machinePool: machines, want: readFleet}, Procs: procs,
				Clients: endToEndClients},
			{Name: "gets", Load: gets, Procs: procs},
		}
		if other != nil {
			all = append(all, other.Contenders(l.slice, endToEndClients)...)
		}
		l.say("%d rounds of %s each: %d clients", l.rounds, l.slice, endToEndClients)
		out, err := contest.Interleave(ctx, l.rounds, l.slice, all)
		if err != nil {
			return err
		}
		if err := l.stillLeads(ctx, leader); err != nil {
			return err
		}
		reportEndToEnd(l.report, out)
		return nil
	})
}

// rivalIronic starts Ironic, or returns nil if the comparison is off or Ironic is not installed.
func (l *lab) rivalIronic(ctx context.Context) (*rival.Ironic, error) {
	if !l.against(vsIronic) {
		return nil, nil //nolint:nilnil // the comparison is optional
	}
	if missing := rival.MissingIronic(l.ironic); missing != "" {
		l.report.Note("Ironic was not compared, so there are no verdicts about it: %s is not installed "+
			"(apt-get install --no-install-recommends ironic-api ironic-conductor)", missing)
		return nil, nil //nolint:nilnil // the same
	}
	l.say("starting Ironic with fake hardware, in %s", l.dir)
	i, err := rival.StartIronic(ctx, l.ironic, l.dir)
	if err == nil {
		l.report.Note("Ironic is %s: one conductor, %d workers of the API, SQLite", i.Version, len(i.Workers)-1)
	}
	return i, err
}

// endToEndRun starts a run on an unused machine and waits for its end.
func (s *machinePool) endToEndRun(e *ends) func(context.Context, grpc.ClientConnInterface) error {
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

// reportEndToEnd adds the figures to the report. There is a verdict only if Ironic was measured,
// too.
func reportEndToEnd(r *report.Report, out map[string]*contest.Outcome) {
	runs, gets := out["runs"], out["gets"]
	took, with := report.Millis(runs.Latencies), fmt.Sprintf(", %d clients", endToEndClients)
	deploys, reads := out[rival.IronicDeploys], out[rival.IronicGets]
	if deploys != nil && reads != nil {
		r.Add("runs.vs_ironic", "whole runs on fake machines : deployments of Ironic"+with,
			report.Ratio(runs.Rate, deploys.Rate), "x", report.AtLeast(goalRuns))
		r.Add("runs.cpu_vs_ironic", "the same, processor time of all processes", report.Ratio(runs.CPU["servers"],
			ironicCPU(deploys)), "x", report.AtMost(goalRunCPU))
		r.Add("runs.p50_vs_ironic", "the same, p50", report.Quantile(took, 0.5)/
			report.Quantile(report.Millis(deploys.Latencies), 0.5), "x", report.AtMost(goalRunP50))
		r.Add("runs.gets_vs_ironic", "machines read, linearizably, on the leader : nodes read of Ironic"+with,
			report.Ratio(gets.Rate, reads.Rate), "x", nil)
	}
	r.Add("runs.rate", "whole runs on fake machines"+with, report.Median(runs.Rate), "/s", nil)
	r.Add("runs.p50", "a whole run, p50", report.Quantile(took, 0.5), "ms", nil)
	r.Add("runs.p99", "a whole run, p99", report.Quantile(took, 0.99), "ms", nil)
	r.Add("runs.servers_cpu", "processor time of all peers a run", report.Median(runs.CPU["servers"]), "µs", nil)
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
	r.Add("runs.ironic_api_cpu", "processor time of the API a deployment, with the polls of its clients",
		report.Median(deploys.CPU["api"])/1000, "ms", nil)
	r.Add("runs.ironic_gets", "nodes read of Ironic"+with, report.Median(reads.Rate), "/s", nil)
	r.Add("runs.ironic_get_cpu", "processor time of the API a node read", report.Median(reads.CPU["api"])/1000, "ms", nil)
}

// ironicCPU returns the processor time of all processes of Ironic per operation, in microseconds,
// for each round.
func ironicCPU(o *contest.Outcome) []float64 {
	var sum []float64
	for i, conductor := range o.CPU["conductor"] {
		sum = append(sum, conductor+o.CPU["api"][i])
	}
	return sum
}
