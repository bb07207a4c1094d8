package simulate

import (
	"context"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfast-metal/holdfast/bench/load"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

const (
	racks     = 100              // of the machines
	runType   = "REBOOT"         // of all runs
	callLimit = 30 * time.Second // of one gRPC call, including retries
)

// runs counts the outcomes of runs.
type runs struct {
	started, ended load.Histogram // of the call; from the creation of the run to its end

	mu       sync.Mutex
	phases   map[string]int64 // of ended runs
	busy     int64            // not started: the machine had another run
	failures map[string]int64 // of calls, by status
}

func (f *fleet) planID() string { return f.Prefix + "/power-cycle" }

// plan creates the plan of all runs, if runs are enabled.
func (f *fleet) plan(ctx context.Context) error {
	if f.Runs == 0 {
		return nil
	}
	step := &holdfastv1.Step{Name: "cycle", Kind: &holdfastv1.Step_Power{Power: &holdfastv1.Power{Action: "cycle",
		Force: true}}}
	_, err := f.client.Plans().CreatePlan(ctx,
		&holdfastv1.CreatePlanRequest{Plan: &holdfastv1.Plan{PlanId: f.planID(), Steps: []*holdfastv1.Step{step}}})
	if err != nil && status.Code(err) != codes.AlreadyExists {
		return fmt.Errorf("create plan %s: %w", f.planID(), err)
	}
	return nil
}

func (f *fleet) machineID(i int) string { return fmt.Sprintf("%s-machine-%07d", f.Prefix, i) }

// machines registers machines and starts runs on them.
func (f *fleet) machines(ctx context.Context) error {
	err := each(ctx, f.Machines, func(ctx context.Context, i int) error {
		_, err := f.client.Machines().RegisterMachine(ctx, &holdfastv1.RegisterMachineRequest{Machine: &holdfastv1.Machine{
			MachineId: f.machineID(i), Labels: map[string]string{"fleet": f.Prefix},
			Spec: &holdfastv1.MachineSpec{
				Provider: f.Provider, Rack: fmt.Sprintf("r%d", i%racks), Serial: fmt.Sprintf("SIM%09d", i),
				BmcEndpoint: fmt.Sprintf("https://10.%d.%d.%d", 100+i>>16&0x7f, i>>8&0xff, i&0xff),
				MacAddresses: []string{fmt.Sprintf("02:51:%02x:%02x:%02x:%02x", i>>24&0xff, i>>16&0xff, i>>8&0xff,
					i&0xff)},
			},
		}})
		if err != nil && status.Code(err) != codes.AlreadyExists && ctx.Err() == nil {
			return fmt.Errorf("register machine %s: %w", f.machineID(i), err)
		}
		if err == nil {
			f.declared.Add(1)
		}
		return nil
	})
	if ctx.Err() != nil {
		return nil
	}
	if err != nil || f.Runs == 0 {
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		f.start(ctx)
		return nil
	})
	g.Go(func() error {
		if err := f.client.WatchRuns(ctx, "", 0, f.runs.note(f.planID(), time.Now())); ctx.Err() == nil {
			return fmt.Errorf("watch runs: %w", err)
		}
		return nil
	})
	return g.Wait()
}

// start starts runs at a fixed rate, on each machine in turn, without waiting for earlier ones.
func (f *fleet) start(ctx context.Context) {
	gap := time.Duration(float64(time.Second) / f.Runs)
	// interval of each worker: longer than a call may take
	turns := min(max(int(f.Runs*callLimit.Seconds()), 1), 100_000)
	s := &load.Schedule{
		Members: turns, AtOnce: inFlight, First: func(i int) time.Duration { return time.Duration(i) * gap },
		Call: func(ctx context.Context, i int, due time.Time) time.Duration {
			f.startOne(ctx, due, f.nextMachine())
			return time.Duration(turns) * gap
		},
	}
	s.Run(ctx)
}

func (f *fleet) nextMachine() string { return f.machineID(int(f.turn.Add(1)-1) % f.Machines) }

func (f *fleet) startOne(ctx context.Context, due time.Time, machine string) {
	ctx, stop := context.WithTimeout(ctx, callLimit)
	defer stop()
	_, err := f.client.Runs().StartRun(ctx, &holdfastv1.StartRunRequest{
		MachineId: machine,
		RequestId: fmt.Sprintf("%s-%x-%d", f.Prefix, f.run, due.UnixNano()),
		Type:      runType,
		PlanId:    f.planID(),
	})
	f.runs.mu.Lock()
	defer f.runs.mu.Unlock()
	switch code := status.Code(err); {
	case err == nil:
		f.runs.started.Add(time.Since(due))
	case code == codes.FailedPrecondition:
		f.runs.busy++
	default:
		if f.runs.failures == nil {
			f.runs.failures = map[string]int64{}
		}
		f.runs.failures[code.String()]++
	}
}

// note counts the ends of runs of the plan that were created after since.
func (r *runs) note(plan string, since time.Time) func(*holdfastv1.RunEvent) error {
	since = since.Add(-time.Minute) // clocks differ, and the runs of an earlier simulation have ended
	return func(e *holdfastv1.RunEvent) error {
		run := e.GetSnapshot()
		if run == nil || run.GetPlanId() != plan || run.GetFinishedAt() == nil || run.GetCreatedAt().AsTime().Before(since) {
			return nil
		}
		r.ended.Add(run.GetFinishedAt().AsTime().Sub(run.GetCreatedAt().AsTime()))
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.phases == nil {
			r.phases = map[string]int64{}
		}
		r.phases[run.GetPhase().String()]++
		return nil
	}
}
