package monitor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-metal/holdfast/cluster/leader"
	"github.com/holdfast-metal/holdfast/cluster/outcome"
	"github.com/holdfast-metal/holdfast/executor/task"
	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/internal/wait"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
	"github.com/holdfast-metal/holdfast/providers"
)

// Config tunes a Monitor. The zero value is the default everywhere.
type Config struct {
	Interval       time.Duration // maximum interval between polls of a machine, if Calls allows it. Default 30 s
	HealthInterval time.Duration // the same for health polls, which are expensive. Default 15 min
	Calls          int           // calls per second of all polls. Default 500. providers.Set.Calls limits each provider
	Timeout        time.Duration // of one poll. Default 10 s
	HealthTimeout  time.Duration // of one health poll. Default 2 min
	Parallel       int           // concurrent polls per provider; a quarter of it for health polls. Default 64
	Logger         *slog.Logger
	Registerer     prometheus.Registerer // nil for none
}

// Monitor is the leader task that polls machines and updates their observed
// conditions: Reachable, BMCReachable, InCustomerCluster, Degraded, and Provisioned as
// the host reports it. It changes nothing on the machines. Unchanged conditions are
// committed only as often as needed to keep observed_at useful.
type Monitor struct {
	cfg       Config
	proposer  task.Proposer
	state     task.State
	providers *providers.Set
	metrics   *pollMetrics
}

// New returns a Monitor; Run it in each term.
func New(cfg Config, p task.Proposer, s task.State, set *providers.Set) *Monitor {
	cfg.Interval = cmp.Or(cfg.Interval, 30*time.Second)
	cfg.HealthInterval = cmp.Or(cfg.HealthInterval, 15*time.Minute)
	cfg.Timeout = cmp.Or(cfg.Timeout, 10*time.Second)
	cfg.HealthTimeout = cmp.Or(cfg.HealthTimeout, 2*time.Minute)
	if cfg.Calls <= 0 {
		cfg.Calls = 500
	}
	cfg.Parallel = cmp.Or(cfg.Parallel, 64)
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	return &Monitor{cfg: cfg, proposer: p, state: s, providers: set, metrics: newPollMetrics(cfg.Registerer)}
}

const (
	maxOfMachine  = 64                     // conditions of one machine, at most
	maxConditions = 256 << 10              // bytes of conditions in one command: half of the limit of a log entry
	linger        = 200 * time.Millisecond // how long a change waits for others, to be committed together
	lingerBusy    = time.Second            // minimum interval between commits, for a fleet that starts up
	scanEvery     = time.Second            // interval between searches for new machines
	recordBudget  = 2000                   // machines per second that are read from the state on average
	recordPace    = 10_000                 // the same at the start of a term
	recordWindow  = 50 * time.Millisecond  // machines that are due within this time are read together
)

// Run polls every machine once per interval until the term ends. New machines are polled
// within seconds. Machines whose run has ended are polled at once, because their
// conditions are from before the run.
func (r *Monitor) Run(ctx context.Context, t leader.Term) error {
	mon := newTerm(ctx, r, t.Epoch)
	defer r.metrics.over()
	mon.group.Go(func() error { return mon.records.run(mon.ctx, mon.read, mon.schedule) })
	mon.group.Go(func() error { return mon.follow(mon.ctx) })
	mon.group.Go(func() error { return mon.commit(mon.ctx) })
	if err := mon.group.Wait(); ctx.Err() == nil {
		return fmt.Errorf("reconcile conditions: %w", err)
	}
	return nil
}

// follow updates the queues for machines that are added, removed, or free again after a run.
func (mon *term) follow(ctx context.Context) error {
	cursor := mon.state.View().LastRunEvent()
	known := map[string]bool{}
	var walked any
	for {
		began := time.Now()
		view := mon.state.View()
		cursor = mon.ended(view, cursor)
		if roll := view.MachineRoll(); roll != walked {
			known, walked = mon.walk(view, known), roll
		}
		mon.observe()
		// A walk over many machines is slow: spend at most 2 % of the time on it.
		if wait.Sleep(ctx, max(scanEvery, 50*time.Since(began))) != nil {
			return nil
		}
	}
}

// walk adds new machines and drops deleted ones. It returns the current machines.
func (mon *term) walk(view *fsm.View, known map[string]bool) map[string]bool {
	here := make(map[string]bool, len(known))
	for id := range view.MachineIDs() {
		here[id] = true
		if !known[id] {
			mon.records.enqueue(id, 1, true)
		}
	}
	for id := range known {
		if !here[id] {
			mon.records.drop(id)
			mon.drop(id, "")
		}
	}
	return here
}

// ended makes the machines whose runs have ended due at once. It returns the next cursor.
func (mon *term) ended(view *fsm.View, cursor uint64) uint64 {
	for {
		events, err := view.RunEvents(cursor, 1024)
		if err != nil || len(events) == 0 {
			return view.LastRunEvent()
		}
		for _, e := range events {
			if fsm.Ended(e.GetSnapshot()) {
				mon.pollNow(e.GetSnapshot().GetMachineId())
			}
		}
		cursor = events[len(events)-1].GetCursor()
	}
}

// commit commits changed conditions, many machines in one command. After a pause it waits
// for linger. Under constant load it commits once a second, because each log entry costs
// every peer a disk write.
func (mon *term) commit(ctx context.Context) error {
	var batch []*internalv1.MachineConditions
	var size, conditions int
	var last time.Time
	flush := time.NewTimer(time.Hour)
	defer flush.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case changed := <-mon.changes:
			size, conditions = size+proto.Size(changed), conditions+len(changed.GetConditions())
			if batch = append(batch, changed); len(batch) == 1 {
				flush.Reset(max(linger, time.Until(last.Add(lingerBusy))))
			}
			if len(batch) < fsm.MaxObserved && size < maxConditions && conditions+maxOfMachine <= fsm.MaxObservations {
				continue
			}
		case <-flush.C:
		}
		if len(batch) == 0 {
			continue
		}
		cmd := &internalv1.Command{
			Epoch: mon.epoch,
			Op: &internalv1.Command_ObserveConditions{
				ObserveConditions: &internalv1.ObserveConditions{Machines: batch},
			},
		}
		batch, size, conditions, last = nil, 0, 0, time.Now()
		_, err := mon.proposer.Apply(ctx, cmd)
		var out *outcome.Error
		if err != nil && !errors.As(err, &out) { // after other errors, the next poll reports the change again
			return err
		}
	}
}
