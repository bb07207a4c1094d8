package bench

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"

	"github.com/holdfast-metal/holdfast/cmd/holdfast/localcluster"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// The goals of DESIGN §11 for runs on fake machines. Ironic with its fake hardware and one conductor made 6.9 deployments and answered 184
// reads of a node a second, on such a machine.
const (
	goalRuns, goalGets = 50 * 6.9, 150 * 184
	goalTransition     = 100 // ms, p99
	goalStepEntries    = 0.5 // of the log
	flightRuns         = 10_000
	wholeClients       = 8
)

// atOnce has power come and go as soon as a button is pressed, as it does with Ironic's fake hardware.
func atOnce() []string { return []string{"--power-time", "1us"} }

// runsTimeout is until all runs must have ended.
const runsTimeout = 10 * time.Minute

func runs() benchmark {
	return benchmark{
		name: "runs", short: "Whole runs on fake machines: how many a second, and 10,000 at once",
		long: `Measure runs of one step (power off and on again) on fake machines in a process of their own, in two parts:

  whole   8 clients start a run and wait for its end before they start the next one; then 8 clients that read machines.
  flight  10,000 runs are started as fast as 64 clients can, on as many machines, and all have to succeed: runs of three steps.`,
		example: `  holdfast bench runs
  holdfast bench runs --only flight --runs 1000 -o json`,
		parts: []part{
			{"whole", "runs from start to end, 8 clients", inHardware(atOnce(), nil, wholeRuns)},
			{"flight", "many runs at once", inHardware(atOnce(), nil, flight)},
		},
		flags: []string{"runs", "rounds", "slice"},
	}
}

// ends tells those who wait for runs that they have ended.
type ends struct {
	mu   sync.Mutex
	wait map[string]chan *holdfastv1.Run // by machine
}

// of gives what gets the end of the machine's next run. Ask before it is started.
func (e *ends) of(machine string) <-chan *holdfastv1.Run {
	e.mu.Lock()
	defer e.mu.Unlock()
	ch := make(chan *holdfastv1.Run, 1)
	e.wait[machine] = ch
	return ch
}

// note takes an event of a run.
func (e *ends) note(ev *holdfastv1.RunEvent) error {
	run := ev.GetSnapshot()
	if run.GetFinishedAt() == nil {
		return nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if ch := e.wait[run.GetMachineId()]; ch != nil {
		delete(e.wait, run.GetMachineId())
		ch <- run
	}
	return nil
}

// watching does something while the ends of all runs are watched.
func (l *lab) watching(ctx context.Context, do func(context.Context, *ends) error) error {
	e := &ends{wait: map[string]chan *holdfastv1.Run{}}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var g errgroup.Group
	g.Go(func() error {
		defer stop()
		if err := l.client.WatchRuns(ctx, "", 0, e.note); ctx.Err() == nil {
			return fmt.Errorf("watch runs: %w", err)
		}
		return nil
	})
	err := do(ctx, e)
	stop()
	return errors.Join(err, g.Wait())
}

// ended waits for the end of a run, which must be a good one.
func ended(ctx context.Context, ch <-chan *holdfastv1.Run) (*holdfastv1.Run, error) {
	select {
	case run := <-ch:
		if run.GetPhase() != holdfastv1.Run_SUCCEEDED {
			return nil, fmt.Errorf("run %s of %s ended as %s: %s", run.GetRunId(), run.GetMachineId(), run.GetPhase(), run.GetError().GetMessage())
		}
		return run, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("wait for a run: %w", ctx.Err())
	}
}

// wholeRuns starts runs one after the other, and then reads.
func wholeRuns(ctx context.Context, l *lab) error {
	if err := l.plan(ctx, powerCycle()); err != nil {
		return err
	}
	leader, _, err := l.roles(ctx)
	if err != nil {
		return err
	}
	at, creds, procs := []string{leader.GRPCAddr}, l.cluster.Credentials(), map[string][]int{"leader": {leader.PID()}}
	machines := &stock{lab: l}
	return l.watching(ctx, func(ctx context.Context, e *ends) (err error) {
		whole, err := newCalls(wholeClients, creds, at, func(ctx context.Context, conn grpc.ClientConnInterface) error {
			id, err := machines.take()
			if err != nil {
				return err
			}
			end := e.of(id)
			if err := startRun(ctx, conn, id); err != nil {
				return err
			}
			_, err = ended(ctx, end)
			return err
		})
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, whole.close()) }()
		gets, err := newCalls(wholeClients, creds, at, getMachine(false))
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, gets.close()) }()
		if err := machines.fill(ctx, readFleet); err != nil {
			return err
		}
		out, err := interleave(ctx, l.rounds, l.slice, []*contender{
			{name: "runs", load: &starter{calls: whole, stock: machines, want: readFleet}, procs: procs}, {name: "gets", load: gets, procs: procs},
		})
		if err != nil {
			return err
		}
		r, took := l.report, millis(out["runs"].latencies)
		with := fmt.Sprintf(", %d clients", wholeClients)
		r.add("runs.rate", "whole runs on fake machines"+with, median(out["runs"].rate), "/s", atLeast(goalRuns))
		r.add("runs.p50", "a whole run, p50", quantile(took, 0.5), "ms", nil)
		r.add("runs.p99", "a whole run, p99", quantile(took, 0.99), "ms", nil)
		r.add("runs.leader_cpu", "processor time of the leader a run", median(out["runs"].cpu["leader"]), "µs", nil)
		r.add("runs.gets", "machines read, linearizably, on the leader"+with, median(out["gets"].rate), "/s", atLeast(goalGets))
		return nil
	})
}

// flight starts many runs at once.
func flight(ctx context.Context, l *lab) (err error) {
	inspect := func(name string) *holdfastv1.Step {
		return &holdfastv1.Step{Name: name, Kind: &holdfastv1.Step_Inspect{Inspect: &holdfastv1.Inspect{}}}
	}
	if err := l.plan(ctx, inspect("before"), powerCycle(), inspect("after")); err != nil {
		return err
	}
	leader, _, err := l.roles(ctx)
	if err != nil {
		return err
	}
	machines := &stock{lab: l}
	l.say("registering %s machines", thousands(int64(l.runs)))
	if err := machines.fill(ctx, l.runs); err != nil {
		return err
	}
	c, err := newCalls(readers, l.cluster.Credentials(), []string{leader.GRPCAddr}, machines.startRun)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.close()) }()
	ctx, stop := context.WithTimeout(ctx, runsTimeout)
	defer stop()
	var done []*holdfastv1.Run
	var before, after localcluster.Readiness
	began := time.Now()
	err = l.watching(ctx, func(ctx context.Context, e *ends) error {
		var all []<-chan *holdfastv1.Run
		for i := range l.runs {
			all = append(all, e.of(machineID(i)))
		}
		l.say("starting %s runs", thousands(int64(l.runs)))
		var err error
		if before, err = leader.Readiness(ctx); err != nil {
			return err
		}
		began = time.Now()
		if _, err := c.run(ctx, runsTimeout); err != nil {
			return err
		}
		for _, ch := range all {
			run, err := ended(ctx, ch)
			if err != nil {
				return err
			}
			done = append(done, run)
		}
		after, err = leader.Readiness(ctx)
		return err
	})
	if err != nil {
		return err
	}
	if err := l.stillLeads(ctx, leader); err != nil {
		return err
	}
	l.report.flight(done, time.Since(began), after.AppliedIndex-before.AppliedIndex)
	return nil
}

// flight puts what was found into the report.
func (r *report) flight(done []*holdfastv1.Run, took time.Duration, entries uint64) {
	var between []time.Duration // steps
	steps := 0
	for _, run := range done {
		for i, s := range run.GetSteps() {
			if steps++; i > 0 {
				between = append(between, s.GetStartedAt().AsTime().Sub(run.GetSteps()[i-1].GetFinishedAt().AsTime()))
			}
		}
	}
	var transition, perStep *goal
	if len(done) == flightRuns {
		transition, perStep = atMost(goalTransition), atMost(goalStepEntries)
	} else {
		r.note("the goals of many runs at once are for %s runs", thousands(flightRuns))
	}
	who := fmt.Sprintf("%s runs of %d steps at once: ", thousands(int64(len(done))), steps/max(len(done), 1))
	r.add("flight.rate", who+"ended well", float64(len(done))/took.Seconds(), "/s", nil)
	r.add("flight.transition_p99", who+"from the end of a step to the begin of the next, p99", quantile(millis(between), 0.99), "ms", transition)
	r.add("flight.entries", who+"entries of the Raft log a step", float64(entries)/float64(max(steps, 1)), "", perStep)
}
