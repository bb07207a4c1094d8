package executor

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-metal/holdfast/cluster"
	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
	"github.com/holdfast-metal/holdfast/providers"
)

// ReconcilerConfig tunes a Reconciler. The zero value is the default everywhere.
type ReconcilerConfig struct {
	Interval       time.Duration // between two looks at one machine, at most, where the budget of calls allows it. Default 30 s
	HealthInterval time.Duration // the same of looks at its health, which are dear. Default 15 min
	Calls          int           // most calls a second that looks make, of all providers. Default 500. Each provider has a budget of its own (providers.Set.Calls)
	Timeout        time.Duration // of one look. Default 10 s
	HealthTimeout  time.Duration // of one look at the health. Default 2 min
	Parallel       int           // looks at once at the machines of one provider; a quarter as many at their health. Default 64
	Logger         *slog.Logger
	Registerer     prometheus.Registerer // nil: nobody is told
}

// Reconciler is the leader task that keeps the conditions true that are observed: Reachable,
// BMCReachable, InCustomerCluster, Degraded, and Provisioned as the host tells (bare-metal API §v1
// Deliverables). It only looks. What has not changed is committed so often only that observed_at
// stays of use.
type Reconciler struct {
	cfg       ReconcilerConfig
	proposer  Proposer
	state     State
	providers *providers.Set
	metrics   *lookMetrics
}

// NewReconciler returns a Reconciler; Run it in each term.
func NewReconciler(cfg ReconcilerConfig, p Proposer, s State, set *providers.Set) *Reconciler {
	def := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
	}
	def(&cfg.Interval, 30*time.Second)
	def(&cfg.HealthInterval, 15*time.Minute)
	def(&cfg.Timeout, 10*time.Second)
	def(&cfg.HealthTimeout, 2*time.Minute)
	if cfg.Calls <= 0 {
		cfg.Calls = 500
	}
	if cfg.Parallel == 0 {
		cfg.Parallel = 64
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	return &Reconciler{cfg: cfg, proposer: p, state: s, providers: set, metrics: newLookMetrics(cfg.Registerer)}
}

const (
	maxPerCommand = 2000                   // machines whose conditions go into one command
	maxNews       = 256 << 10              // bytes of them: an entry of the log takes twice as many
	linger        = 200 * time.Millisecond // how long news wait for others to go with them
	lingerBusy    = time.Second            // the same where the last ones are no older: a fleet that comes up has news for minutes
	scanEvery     = time.Second            // how often new machines are looked for
	recordBudget  = 2000                   // machines a second that are read from the record, in the long run
	recordPace    = 10_000                 // the same when a term begins
	recordGrain   = 50 * time.Millisecond  // those of so much time are read together
)

// Run looks at every machine once an interval until the term ends. New machines are looked at
// within seconds, and those whose run has ended at once: what is recorded of them is from before
// it.
func (r *Reconciler) Run(ctx context.Context, t cluster.Term) error {
	o := newLookout(ctx, r, t.Epoch)
	defer r.metrics.over()
	o.group.Go(func() error { return o.records.run(o.ctx, o.read, o.place) })
	o.group.Go(func() error { return o.follow(o.ctx) })
	o.group.Go(func() error { return o.commit(o.ctx) })
	if err := o.group.Wait(); ctx.Err() == nil {
		return fmt.Errorf("reconcile conditions: %w", err)
	}
	return nil
}

// follow keeps the machines that are looked at those that there are.
func (o *lookout) follow(ctx context.Context) error {
	cursor := o.state.View().LastEvent()
	known := map[string]bool{}
	var walked any
	for {
		began := time.Now()
		view := o.state.View()
		cursor = o.ended(view, cursor)
		if roll := view.MachineRoll(); roll != walked {
			known, walked = o.walk(view, known), roll
		}
		o.observe()
		// A walk over very many machines takes its time: at most 2 % of it.
		if sleep(ctx, max(scanEvery, 50*time.Since(began))) != nil {
			return nil
		}
	}
}

// walk takes in machines that are new and drops those that are gone. It gives those that there are.
func (o *lookout) walk(view *fsm.View, known map[string]bool) map[string]bool {
	here := make(map[string]bool, len(known))
	for id := range view.MachineIDs() {
		here[id] = true
		if !known[id] {
			o.records.ensure(id, 1, true)
		}
	}
	for id := range known {
		if !here[id] {
			o.records.drop(id)
			o.drop(id, "")
		}
	}
	return here
}

// ended makes the machines whose run has ended due at once. It gives the cursor to go on from.
func (o *lookout) ended(view *fsm.View, cursor uint64) uint64 {
	for {
		events, err := view.Events(cursor, 1024)
		if err != nil || len(events) == 0 {
			return view.LastEvent()
		}
		for _, e := range events {
			if fsm.Ended(e.GetSnapshot()) {
				o.soon(e.GetSnapshot().GetMachineId())
			}
		}
		cursor = events[len(events)-1].GetCursor()
	}
}

// commit puts news on record, those of many machines at once. The first after a pause wait for
// linger; where there is always something new, once a second is enough: each entry of the log costs
// every peer a disk write.
func (o *lookout) commit(ctx context.Context) error {
	var batch []*internalv1.MachineConditions
	var size int
	var last time.Time
	flush := time.NewTimer(time.Hour)
	defer flush.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case news := <-o.news:
			size += proto.Size(news)
			if batch = append(batch, news); len(batch) == 1 {
				flush.Reset(max(linger, time.Until(last.Add(lingerBusy))))
			}
			if len(batch) < maxPerCommand && size < maxNews {
				continue
			}
		case <-flush.C:
		}
		if len(batch) == 0 {
			continue
		}
		cmd := &internalv1.Command{FeatureLevel: 1, Epoch: o.epoch, Op: &internalv1.Command_ObserveConditions{
			ObserveConditions: &internalv1.ObserveConditions{Machines: batch}}}
		batch, size, last = nil, 0, time.Now()
		_, err := o.proposer.Apply(ctx, cmd)
		var out *cluster.OutcomeError
		if err != nil && !errors.As(err, &out) { // else the next look sees it again
			return err
		}
	}
}
