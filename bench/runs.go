package bench

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/holdfast-metal/holdfast/bench/contest"
	"github.com/holdfast-metal/holdfast/bench/report"
	"github.com/holdfast-metal/holdfast/internal/localcluster"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// The goals of docs/performance.md for runs on fake machines. The first three are ratios to the
// deployments of OpenStack Ironic with fake hardware and one conductor, on the same machine in the
// same run.
const (
	goalRuns        = 20   // rate
	goalRunCPU      = 0.06 // processor time of all processes
	goalRunP50      = 0.05
	goalTransition  = 100 // ms, p99
	goalStepEntries = 0.5 // log entries per step
	flightRuns      = 10_000
	endToEndClients = 8
)

// atOnce makes the power change immediately, as with Ironic's fake hardware.
func atOnce() []string { return []string{"--power-time", "1us"} }

// rarePolls limits the polls of machines to one call per second. Ironic does not poll its nodes
// during the measurement either.
func rarePolls() []string { return []string{"--poll-calls-per-second", "1"} }

// runsTimeout limits the time until all runs have ended.
const runsTimeout = 10 * time.Minute

func runs() benchmark {
	return benchmark{
		name: "runs", short: "Measure runs on fake machines, compared with OpenStack Ironic, and 10,000 at once",
		long: `Measure runs on fake machines in their own process, in three parts:

  whole   8 clients start a run of one step (power off and on) and wait for its
          end; then 8 clients read machines. In turn with OpenStack Ironic, its
          fake hardware and one conductor (--vs ironic): 8 clients deploy a node
          and wait until it is active; then 8 clients read nodes. Machines and
          nodes are created outside of the slices.
  plan    one client starts a run of five steps (inspect, power off, inspect,
          power on, inspect) and waits for its end
  flight  64 clients start 10,000 runs of three steps on as many machines without
          a pause, and all must succeed`,
		example: `  holdfast-bench runs
  holdfast-bench runs --only whole --slice 5s
  holdfast-bench runs --only flight --runs 1000 -o json`,
		parts: []part{
			{"whole", "runs from start to end, 8 clients", inHardware(atOnce(), rarePolls(), endToEndRuns)},
			{"plan", "a run of five steps, one client", inHardware(atOnce(), rarePolls(), planRun)},
			{"flight", "many runs at once", inHardware(atOnce(), nil, flight)},
		},
		flags: []string{"runs", "vs", "ironic", "rounds", "slice"},
	}
}

// ends notifies the waiters of ended runs.
type ends struct {
	mu   sync.Mutex
	wait map[string]chan *holdfastv1.Run // by machine
}

// of returns a channel that receives the end of the machine's next run. Call it before the start.
func (e *ends) of(machine string) <-chan *holdfastv1.Run {
	e.mu.Lock()
	defer e.mu.Unlock()
	ch := make(chan *holdfastv1.Run, 1)
	e.wait[machine] = ch
	return ch
}

// note handles an event of a run.
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

// watching calls do while it watches the ends of all runs.
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

// ended waits for the end of a run and returns an error unless it succeeded.
func ended(ctx context.Context, ch <-chan *holdfastv1.Run) (*holdfastv1.Run, error) {
	select {
	case run := <-ch:
		if run.GetPhase() != holdfastv1.Run_SUCCEEDED {
			return nil, fmt.Errorf("run %s of %s ended as %s: %s", run.GetRunId(), run.GetMachineId(), run.GetPhase(),
				run.GetError().GetMessage())
		}
		return run, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("wait for a run: %w", ctx.Err())
	}
}

// inspect returns a step that only reads.
func inspect(name string) *holdfastv1.Step {
	return &holdfastv1.Step{Name: name, Kind: &holdfastv1.Step_Inspect{Inspect: &holdfastv1.Inspect{}}}
}

// flight starts many runs at once.
func flight(ctx context.Context, l *lab) (err error) {
	if err := l.plan(ctx, inspect("before"), powerCycle(), inspect("after")); err != nil {
		return err
	}
	leader, _, err := l.roles(ctx)
	if err != nil {
		return err
	}
	machines := &machinePool{lab: l}
	l.say("registering %s machines", report.Thousands(int64(l.runs)))
	if err := machines.fill(ctx, l.runs); err != nil {
		return err
	}
	c, err := contest.NewCalls(readers, l.cluster.Credentials(), []string{leader.GRPCAddr}, machines.startRun)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
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
		l.say("starting %s runs", report.Thousands(int64(l.runs)))
		var err error
		if before, err = leader.Readiness(ctx); err != nil {
			return err
		}
		began = time.Now()
		if _, err := c.Run(ctx, runsTimeout); err != nil {
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
	reportFlight(l.report, done, time.Since(began), after.AppliedIndex-before.AppliedIndex)
	return nil
}

// reportFlight adds the figures to the report.
func reportFlight(r *report.Report, done []*holdfastv1.Run, took time.Duration, entries uint64) {
	between, steps := betweenSteps(done)
	var transition, perStep *report.Goal
	if len(done) == flightRuns {
		transition, perStep = report.AtMost(goalTransition), report.AtMost(goalStepEntries)
	} else {
		r.Note("the goals of many runs at once are for %s runs", report.Thousands(flightRuns))
	}
	who := fmt.Sprintf("%s runs of %d steps at once: ", report.Thousands(int64(len(done))), steps/max(len(done), 1))
	r.Add("flight.rate", who+"ended well", float64(len(done))/took.Seconds(), "/s", nil)
	r.Add("flight.transition_p99", who+"from the end of a step to the begin of the next, p99",
		report.Quantile(report.Millis(between), 0.99), "ms", transition)
	r.Add("flight.entries", who+"entries of the Raft log a step", float64(entries)/float64(max(steps, 1)), "", perStep)
}

// betweenSteps returns the times from the end of a step to the start of the next, and the number of
// all steps.
func betweenSteps(done []*holdfastv1.Run) (between []time.Duration, steps int) {
	for _, run := range done {
		for i, s := range run.GetSteps() {
			if steps++; i > 0 {
				between = append(between, s.GetStartedAt().AsTime().Sub(run.GetSteps()[i-1].GetFinishedAt().AsTime()))
			}
		}
	}
	return between, steps
}
