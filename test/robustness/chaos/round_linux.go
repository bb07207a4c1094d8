package chaos

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/holdfast-metal/holdfast/internal/wait"
	"github.com/holdfast-metal/holdfast/test/robustness/check"
	"github.com/holdfast-metal/holdfast/test/robustness/fault"
	"github.com/holdfast-metal/holdfast/test/robustness/harness"
	"github.com/holdfast-metal/holdfast/test/robustness/workload"
)

const (
	warmUp     = 2 * time.Second  // of traffic before the first fault
	faultTime  = 2 * time.Minute  // to inject or repair one: handovers wait for each other, rotations for all peers
	settleTime = 90 * time.Second // for the runs to end once all is well: a step of the workload may take 20 s, twice
	checkTime  = 5 * time.Minute
)

// Round is a number of faults under one workload, and the verdict on it.
type Round struct {
	Seed    int64
	Faults  []fault.Fault
	Count   int           // how many to inject
	For     time.Duration // or for how long; the later of both counts
	Every   time.Duration // from one fault to the next; 0: as soon as all is well again
	Clients int           // default: the workload's
	MinOps  int
	Report  string // directory for the checks' reports

	Leases workload.Leases // the terms that the peers were built with
	Agent  string          // the holdfast-agent executable; empty: none
}

// Injected is an injected fault.
type Injected struct {
	Name  string
	After time.Duration // from the start of the round
	Broke time.Duration // from the injection to the end of the repair
	Well  time.Duration // from there until all was well
}

// Run makes traffic, injects faults, repairs them and runs the checks. It returns the
// injected faults, also with an error.
func (r Round) Run(ctx context.Context, c *harness.Cluster) ([]Injected, error) {
	rng := rand.New(rand.NewPCG(uint64(r.Seed), 1))
	s, err := newSchedule(c, r.Faults, rng)
	if err != nil {
		return nil, err
	}
	target := workload.TargetOf(c.Cluster, c.Fake.Endpoint)
	target.Log, target.Site = c.Log, c.Site
	w := workload.New(workload.Config{Seed: r.Seed, Clients: r.Clients, MinOps: r.MinOps, Leases: r.Leases,
		Agent: r.Agent}, target)
	defer w.Close()
	traffic, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- w.Run(traffic) }()

	injected, broken := r.inject(ctx, c, s, rng, w.Disturbed)
	stop()
	errs := []error{broken, <-ended}
	if broken == nil { // otherwise the state is unknown
		settle, done := context.WithTimeout(ctx, settleTime)
		began := time.Now()
		if err := w.Settle(settle); err != nil {
			errs = append(errs, fmt.Errorf("after all faults were healed: %w", err))
		}
		done()
		c.Log.Info("all runs have ended, and the leases of all stopped clients",
			"after", time.Since(began).Round(time.Millisecond))
		c.Log.Info(w.History().Fleet.String())
	}
	checks, done := context.WithTimeout(ctx, checkTime)
	defer done()
	if broken == nil {
		errs = append(errs, check.All(checks, w.History(), target, r.Report)...)
	} else { // there is no final record
		errs = append(errs, check.Order(w.History())...)
	}
	errs = append(errs, c.Trouble()...)
	return injected, errors.Join(errs...)
}

// inject follows the schedule until there were enough faults, or one could not be repaired.
// It calls disturbed when a fault begins, and its result when it ends.
func (r Round) inject(
	ctx context.Context, c *harness.Cluster, s *schedule, rng *rand.Rand, disturbed func() func(),
) ([]Injected, error) {
	began := time.Now()
	var injected []Injected
	_ = wait.Sleep(ctx, warmUp)
	for ctx.Err() == nil && (len(injected) < r.Count || time.Since(began) < r.For) {
		over := disturbed()
		one, err := breakAndMend(ctx, c, s.next(), rng)
		over()
		one.After = time.Since(began).Round(time.Millisecond)
		injected = append(injected, one)
		if err != nil {
			return injected, fmt.Errorf("fault %d, %s: %w", len(injected), one.Name, err)
		}
		_ = wait.Sleep(ctx, time.Duration(len(injected))*r.Every-time.Since(began))
	}
	return injected, ctx.Err()
}

func breakAndMend(ctx context.Context, c *harness.Cluster, f fault.Fault, rng *rand.Rand) (Injected, error) {
	one := Injected{Name: f.Name()}
	began := time.Now()
	within, stop := context.WithTimeout(ctx, faultTime)
	defer stop()
	c.Log.Info("inject", "fault", f.Name())
	heal, err := f.Inject(within, c, rng)
	if err != nil {
		return one, fmt.Errorf("inject: %w", err)
	}
	_ = wait.Sleep(ctx, f.Hold(rng))
	if err := heal(within); err != nil {
		return one, fmt.Errorf("heal: %w", err)
	}
	one.Broke = time.Since(began).Round(time.Millisecond)
	began = time.Now()
	err = c.Healthy(ctx, true)
	one.Well = time.Since(began).Round(time.Millisecond)
	return one, err
}
