package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-metal/holdfast/client"
	"github.com/holdfast-metal/holdfast/internal/cli/fields"
	"github.com/holdfast-metal/holdfast/internal/cli/wave"
	"github.com/holdfast-metal/holdfast/proto/holdfast/stepkind"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// waveFlags are the flags that turn run start into a wave.
type waveFlags struct {
	selector, id       string
	labels             string
	parallel, failures int
	detach             bool
}

func (w *waveFlags) register(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&w.selector, "selector", "",
		"start a run on each machine that matches (AIP-160), e.g. 'pool = gpu AND phase = READY'")
	registerLabels(cmd, &w.labels)
	f.IntVar(&w.parallel, "max-parallel", 10, "with --selector: maximum number of active runs")
	f.IntVar(&w.failures, "max-failures", 0, "with --selector: number of failed runs after which no more start")
	f.StringVar(&w.id, "wave", "",
		"with --selector: id of the wave; if it exists, it is followed (default: generated and printed)")
	f.BoolVar(&w.detach, "detach", false, "with --selector: do not wait for the wave")
}

func (w *waveFlags) check(cmd *cobra.Command, args []string, req *holdfastv1.StartRunRequest) (err error) {
	w.selector, err = withLabels(w.selector, w.labels)
	switch {
	case err != nil:
		return err
	case len(args) == 0 && w.selector == "":
		return usagef("%s: MACHINE is missing: usage: %s", cmd.CommandPath(), cmd.UseLine())
	case len(args) > 0 && w.selector != "":
		return usagef("%s: give either MACHINE or --selector (-l)", cmd.CommandPath())
	case w.selector == "":
		for _, name := range []string{"max-parallel", "max-failures", "wave", "detach"} {
			if cmd.Flags().Changed(name) {
				return usagef("--%s: only for a wave: pass --selector", name)
			}
		}
		return nil
	case req.GetRequestId() != "":
		return usagef("--request-id: the runs of a wave have its id: give --wave")
	case w.parallel < 1:
		return usagef("--max-parallel: %d: give 1 or more", w.parallel)
	case w.failures < 0:
		return usagef("--max-failures: %d: give 0 or more", w.failures)
	}
	return nil
}

// machines returns the named machine, or those that match the selector.
func (w *waveFlags) machines(ctx context.Context, c *client.Client, args []string) ([]*holdfastv1.Machine, error) {
	if w.selector != "" {
		return listMachines(ctx, c, &listing{filter: w.selector})
	}
	m, err := getMachine(ctx, c, args[0])
	return []*holdfastv1.Machine{m}, err
}

// waveCluster is the cluster as seen by one wave.
type waveCluster struct {
	c    *client.Client
	req  *holdfastv1.StartRunRequest
	call time.Duration // time limit of a start, beside that of the wave
}

func (w *waveCluster) filter() string { return fmt.Sprintf("request_id = %q", w.req.GetRequestId()) }

// Start implements wave.Cluster.
func (w *waveCluster) Start(ctx context.Context, machine string) (*holdfastv1.Run, error) {
	req := proto.CloneOf(w.req)
	req.MachineId = machine
	ctx, cancel := context.WithTimeout(ctx, w.call)
	defer cancel()
	return w.c.Runs().StartRun(ctx, req)
}

// Watch implements wave.Cluster.
func (w *waveCluster) Watch(ctx context.Context, f func(*holdfastv1.Run) error) error {
	return w.c.WatchRuns(ctx, w.filter(), 0, func(e *holdfastv1.RunEvent) error { return f(e.GetSnapshot()) })
}

// runs lists the runs of the wave.
func (w *waveCluster) runs(ctx context.Context) ([]*holdfastv1.Run, error) {
	all, err := runKind().all(ctx, w.c, w.filter(), 0)
	return all, failed(err, "list the runs of wave %s", w.req.GetRequestId())
}

// clientWave drives a wave from this process, for clusters that cannot: its peers are older.
func (a *app) clientWave(
	ctx context.Context, c *client.Client, o *output, req *holdfastv1.StartRunRequest, flags waveFlags,
	limit time.Duration, allow func([]*holdfastv1.Machine) error,
) error {
	req.RequestId = cmp.Or(flags.id, "wave-"+uuid.NewString())
	cluster := &waveCluster{c: c, req: req, call: a.globals.timeout}
	known, err := cluster.runs(ctx)
	if err != nil {
		return err
	}
	machines, err := listMachines(ctx, c, &listing{filter: flags.selector})
	if err != nil {
		return err
	}
	machines = slices.DeleteFunc(machines, func(m *holdfastv1.Machine) bool {
		return slices.ContainsFunc(known, func(r *holdfastv1.Run) bool { return r.GetMachineId() == m.GetMachineId() })
	})
	todo := mapped(machines, (*holdfastv1.Machine).GetMachineId)
	if len(todo) == 0 && len(known) == 0 {
		return &codeError{ExitNotFound, fmt.Sprintf("start a wave: no machine matches %q", flags.selector)}
	}
	if err := allow(machines); err != nil {
		return err
	}
	ctx, cancel := a.patience(ctx, limit)
	defer cancel()
	slices.SortFunc(todo, fields.Natural)
	a.note("%s: machines to start: %d, started before: %d", req.GetRequestId(), len(todo), len(known))
	p, err := wave.New(wave.Config{Machines: todo, Known: known, Parallel: flags.parallel, Failures: flags.failures,
		Refused: func(machine string, err error) error {
			err = failed(err, "start run on machine %s", machine)
			if unanswered(err) {
				return err
			}
			a.note("%s", err)
			return nil
		},
		Ended: func(r *holdfastv1.Run, p wave.Progress) {
			a.note("%s %s %s: %d of %d done, %d failed, %d active", r.GetMachineId(), r.GetRunId(), r.GetPhase(),
				p.Succeeded+p.Failed+p.Refused, p.Total, p.Failed+p.Refused, p.Active())
		}}, cluster).Run(ctx)
	return a.waveEnded(ctx, o, cluster, p, err)
}

// allowWave blocks until the operator has confirmed a destructive wave on machines.
func (a *app) allowWave(ctx context.Context, c *client.Client, path string, ok consent,
	req *holdfastv1.StartRunRequest, machines []*holdfastv1.Machine) error {
	if ok.yes || len(machines) == 0 {
		return nil
	}
	plan, err := planOf(ctx, c, req)
	if err != nil || !stepkind.Destructive(plan) {
		return err
	}
	return ok.obtain(ctx, a, path, loss(plan, machines), word(mapped(machines, (*holdfastv1.Machine).GetMachineId)))
}

// unanswered reports whether the cluster could not be reached, in contrast to a machine that
// could not be started.
func unanswered(err error) bool {
	switch status.Code(err) {
	case codes.Unavailable, codes.DeadlineExceeded, codes.Canceled, codes.Unauthenticated:
		return true
	}
	return client.Reason(err) == client.ReasonRateLimit // for the whole time of the call
}

// timeUp reports whether the deadline of the context has passed, in contrast to the limit of
// one call. A call that cannot complete before the deadline ends a moment earlier.
func timeUp(ctx context.Context) bool {
	end, limited := ctx.Deadline()
	return limited && !errors.Is(ctx.Err(), context.Canceled) && time.Until(end) <= time.Second
}

// waveEnded prints the runs and the result of the wave.
func (a *app) waveEnded(ctx context.Context, o *output, cluster *waveCluster, p wave.Progress, err error) error {
	id := cluster.req.GetRequestId()
	onward := fmt.Sprintf("runs that continue: %d, machines that are not started: %d: continue with the same command and "+
		"--wave %s", p.Active(), p.Waiting(), id)
	switch {
	case err != nil && timeUp(ctx):
		return &codeError{ExitTimeout, fmt.Sprintf("wave %s: time is up: %s", id, onward)}
	case err != nil && errors.Is(ctx.Err(), context.Canceled):
		return &codeError{ExitError, fmt.Sprintf("wave %s: interrupted: %s", id, onward)}
	case err != nil:
		a.note("%s: %s", id, onward)
		return failed(err, "wave %s", id)
	}
	runs, err := cluster.runs(ctx)
	if err != nil {
		return err
	}
	if err := printList(a, o, runKind(), runs); err != nil {
		return err
	}
	if p.Succeeded == p.Total {
		return nil
	}
	msg := fmt.Sprintf("wave %s: %d of %d machines succeeded; failed: %d, refused: %d", id, p.Succeeded, p.Total,
		p.Failed, p.Refused)
	if names := failedMachines(runs); names != "" {
		msg += ": " + names
	}
	if n := p.Waiting(); n > 0 {
		msg += fmt.Sprintf(", not started: %d: remove the cause, then continue with the same command, --max-failures %d "+
			"and --wave %s", n, p.Failed+p.Refused, id)
	}
	return &codeError{ExitRunFailed, msg}
}

// failedMachines returns the machines of the runs that ended without success, at most ten.
func failedMachines(runs []*holdfastv1.Run) string {
	var names []string
	for _, r := range runs {
		if r.GetFinishedAt() != nil && r.GetPhase() != holdfastv1.Run_SUCCEEDED {
			names = append(names, r.GetMachineId())
		}
	}
	return atMostTen(names)
}
