package executor

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/holdfast-metal/holdfast/cluster"
	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
	"github.com/holdfast-metal/holdfast/providers"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// ReconcilerConfig tunes a Reconciler. The zero value is the default everywhere.
type ReconcilerConfig struct {
	Interval time.Duration // between two looks at one machine. Default 30 s, longer for fleets beyond 200 machines a second
	Timeout  time.Duration // of one look. Default 5 s
	Parallel int           // looks at once. Default 64
	Refresh  time.Duration // how old observed_at may get on record while nothing changes. Default 10 min
	Logger   *slog.Logger
}

// Reconciler is the leader task that keeps the conditions Reachable, BMCReachable and InCustomerCluster true
// (bare-metal API §v1 Deliverables). It only looks. What has not changed is not committed.
type Reconciler struct {
	cfg       ReconcilerConfig
	proposer  Proposer
	state     State
	providers *providers.Set
}

// NewReconciler gives a Reconciler; Run it in each term.
func NewReconciler(cfg ReconcilerConfig, p Proposer, s State, set *providers.Set) *Reconciler {
	def := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
	}
	def(&cfg.Interval, 30*time.Second)
	def(&cfg.Timeout, 5*time.Second)
	def(&cfg.Refresh, 10*time.Minute)
	if cfg.Parallel == 0 {
		cfg.Parallel = 64
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	return &Reconciler{cfg: cfg, proposer: p, state: s, providers: set}
}

// maxPerCommand is how many machines' conditions go into one command.
const maxPerCommand = 200

// Run looks at every machine once an interval until the term ends. New machines are looked at within seconds.
func (r *Reconciler) Run(ctx context.Context, t cluster.Term) error {
	due := map[string]time.Time{} // by machine: when to look again
	cursor := r.state.View().LastEvent()
	for {
		view, now := r.state.View(), time.Now()
		cursor = soon(view, cursor, due)
		interval := max(r.cfg.Interval, time.Duration(view.MachineCount())*time.Second/200)
		if err := r.pass(ctx, t.Epoch, view, func(id string) bool {
			if now.Before(due[id]) {
				return false
			}
			due[id] = now.Add(interval*3/4 + retryAfter(interval/2, interval/2, 1)/2)
			return true
		}); err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return fmt.Errorf("reconcile conditions: %w", err)
		}
		if len(due) > 2*view.MachineCount()+1000 {
			clear(due) // machines were deleted
		}
		if sleep(ctx, min(interval, max(time.Second, time.Since(now)*10))) != nil {
			return nil
		}
	}
}

// soon makes the machines whose run has ended due at once: what is on record of them is from before it. It gives
// the cursor to go on from.
func soon(view *fsm.View, cursor uint64, due map[string]time.Time) uint64 {
	for {
		events, err := view.Events(cursor, 1024)
		if err != nil || len(events) == 0 {
			return view.LastEvent()
		}
		for _, e := range events {
			if fsm.Ended(e.GetSnapshot()) {
				delete(due, e.GetSnapshot().GetMachineId())
			}
		}
		cursor = events[len(events)-1].GetCursor()
	}
}

// pass looks at the machines that are due and commits what has changed.
func (r *Reconciler) pass(ctx context.Context, epoch uint64, view *fsm.View, due func(id string) bool) error {
	results := make(chan *internalv1.MachineConditions, r.cfg.Parallel)
	g, gctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		defer close(results)
		looks, lctx := errgroup.WithContext(gctx)
		looks.SetLimit(r.cfg.Parallel)
		for id := range view.MachineIDs() {
			if lctx.Err() != nil {
				break
			}
			if !due(id) {
				continue
			}
			m, ok := view.Machine(id)
			if !ok {
				continue
			}
			looks.Go(func() error {
				if news := r.look(lctx, m); len(news) > 0 {
					select {
					case results <- &internalv1.MachineConditions{MachineId: m.GetMachineId(), Conditions: news}:
					case <-lctx.Done():
					}
				}
				return nil
			})
		}
		return looks.Wait()
	})
	g.Go(func() error {
		var batch []*internalv1.MachineConditions
		commit := func() error {
			if len(batch) == 0 {
				return nil
			}
			cmd := &internalv1.Command{FeatureLevel: 1, Epoch: epoch, Op: &internalv1.Command_ObserveConditions{
				ObserveConditions: &internalv1.ObserveConditions{Machines: batch}}}
			batch = nil
			_, err := r.proposer.Apply(gctx, cmd)
			var out *cluster.OutcomeError
			if errors.As(err, &out) {
				return nil // the next pass sees it again
			}
			return err
		}
		for mc := range results {
			if batch = append(batch, mc); len(batch) == maxPerCommand {
				if err := commit(); err != nil {
					return err
				}
			}
		}
		return commit()
	})
	return g.Wait()
}

// look observes one machine and gives the conditions that are news.
func (r *Reconciler) look(ctx context.Context, m *holdfastv1.Machine) []*holdfastv1.Condition {
	if m.GetStatus().GetPhase() == holdfastv1.MachineStatus_RETIRED {
		return nil
	}
	p, err := r.providers.Of(m)
	if err != nil {
		return r.news(m, &holdfastv1.Condition{Type: "Reachable", Reason: "NoProvider"}, &holdfastv1.Condition{Type: "BMCReachable", Reason: "NoProvider"})
	}
	ctx, stop := context.WithTimeout(ctx, r.cfg.Timeout)
	defer stop()
	var seen []*holdfastv1.Condition
	if in, ok := p.(providers.Inspector); ok {
		facts, err := in.Inspect(ctx, m)
		if err != nil {
			if ctx.Err() != nil && !errors.Is(ctx.Err(), context.DeadlineExceeded) {
				return nil // the term is over: that says nothing about the machine
			}
			reason := "InspectFailed"
			switch providers.ClassOf(err) {
			case providers.Auth:
				reason = "AuthFailed"
			case providers.Timeout:
				reason = "Timeout"
			case providers.Gone:
				reason = "Gone"
			}
			facts = providers.Facts{ReachableReason: reason, BMCReason: reason}
		}
		seen = append(seen,
			&holdfastv1.Condition{Type: "Reachable", Status: facts.Reachable, Reason: facts.ReachableReason},
			&holdfastv1.Condition{Type: "BMCReachable", Status: facts.BMCReachable, Reason: facts.BMCReason})
	}
	ref := m.GetSpec().GetTargetClusterRef()
	if j, ok := p.(providers.ClusterJoiner); ok && ref != "" && m.GetStatus().GetActiveRunId() == "" {
		// While a run is at work, the run says when the machine has joined.
		if node, err := j.NodeStatus(ctx, m, ref); err == nil {
			seen = append(seen, &holdfastv1.Condition{Type: "InCustomerCluster", Status: node.Registered && node.Ready, Reason: node.Reason})
		}
	}
	return r.news(m, seen...)
}

// news leaves out what is on record already, and fresh enough.
func (r *Reconciler) news(m *holdfastv1.Machine, seen ...*holdfastv1.Condition) []*holdfastv1.Condition {
	var news []*holdfastv1.Condition
	for _, c := range seen {
		c.ObservedAt = at(time.Now())
		c.Reason = clean(c.GetReason())
		known := false
		for _, old := range m.GetStatus().GetConditions() {
			if old.GetType() == c.GetType() {
				known = old.GetStatus() == c.GetStatus() && old.GetReason() == c.GetReason() &&
					time.Since(old.GetObservedAt().AsTime()) < r.cfg.Refresh
			}
		}
		if !known {
			news = append(news, c)
		}
	}
	return news
}
