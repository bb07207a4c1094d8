package executor

import (
	"context"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/time/rate"

	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
	"github.com/holdfast-metal/holdfast/providers"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// lookKind is what is looked at.
type lookKind string

const (
	lookReach  lookKind = "reach"  // whether host, BMC and node are there: a call or two
	lookHealth lookKind = "health" // what the BMC says of the parts
)

type laneKey struct {
	provider string
	kind     lookKind
}

// lookout is a Reconciler's work in one term: a lane of looks for each provider and kind, and one
// that only reads the record, to see which lanes a machine belongs to and what of it has gone
// stale.
type lookout struct {
	*Reconciler
	epoch    uint64
	began    time.Time
	ctx      context.Context
	group    *errgroup.Group
	records  *lane
	all      *rate.Limiter
	recovers *rate.Limiter
	news     chan *internalv1.MachineConditions

	mu     sync.Mutex
	lanes  map[laneKey]*lane
	paces  map[string]*pacer // by provider
	placed map[string]string // the provider of each machine
}

func newLookout(ctx context.Context, r *Reconciler, epoch uint64) *lookout {
	g, gctx := errgroup.WithContext(ctx)
	free := newPacer(recordPace, nil, func(time.Duration) {})
	o := &lookout{Reconciler: r, epoch: epoch, began: time.Now(), ctx: gctx, group: g, news: make(chan *internalv1.MachineConditions, r.cfg.Parallel),
		records: newLane(1, free, r.period(lookReach), recordBudget, time.Now()), all: rate.NewLimiter(rate.Every(gapOf(r.cfg.Calls)), 1), recovers: rate.NewLimiter(rate.Every(recoverGap), 1),
		lanes: map[laneKey]*lane{}, paces: map[string]*pacer{}, placed: map[string]string{}}
	o.records.grain = recordGrain
	return o
}

// period is how often a machine is looked at when the budget allows it: a little more often than it
// has to be, for looks that wait.
func (r *Reconciler) period(kind lookKind) time.Duration {
	if kind == lookHealth {
		return r.cfg.HealthInterval * 9 / 10
	}
	return r.cfg.Interval * 9 / 10
}

// read puts a machine into the lane of records. One that is as it was when there was nothing to do
// is not read again: that is nearly the whole of a large fleet whose agents speak for themselves.
func (o *lookout) read(e *entry) *holdfastv1.Machine {
	view := o.state.View()
	all := view.MachinesMark()
	if e.settled != nil && e.among == all {
		return nil // no machine has changed
	}
	e.mark = view.MachineMark(e.id)
	if e.mark != nil && e.mark == e.settled {
		e.among = all
		return nil
	}
	m, ok := view.Machine(e.id)
	if !ok || m.GetStatus().GetPhase() == holdfastv1.MachineStatus_RETIRED {
		o.drop(e.id, "")
		return nil
	}
	return m
}

// place sees to it that a machine is in the lanes of its provider, and says what can be said of it
// without a call.
func (o *lookout) place(ctx context.Context, e *entry, m *holdfastv1.Machine) {
	e.settled, e.among = nil, nil
	if !o.situate(ctx, m) && !goodForATime(m) {
		e.settled = e.mark
	}
}

// situate does the work of place, and says whether there was something to recorded: the next look
// sees whether it has come there.
func (o *lookout) situate(ctx context.Context, m *holdfastv1.Machine) (told bool) {
	id, name := m.GetMachineId(), o.providers.NameOf(m)
	o.mu.Lock()
	moved := o.placed[id] != name
	o.mu.Unlock()
	if moved {
		o.drop(id, name)
	}
	p, err := o.providers.Of(m)
	if err != nil {
		return o.witness(ctx, m, "NoProvider")
	}
	_, inspects := p.(providers.Inspector)
	_, joins := p.(providers.ClusterJoiner)
	if inspects || joins {
		calls := 1
		if inspects && joins && clusterToLookAt(m) != "" {
			calls = 2
		}
		o.lane(name, lookReach).ensure(id, calls, condition(m, condReachable) == nil && condition(m, condBMCReachable) == nil)
	}
	if !inspects {
		told = o.witness(ctx, m, "NotObservable")
	}
	if _, ok := p.(providers.HealthReader); ok {
		o.lane(name, lookHealth).ensure(id, 1, condition(m, condDegraded) == nil)
	}
	return o.tell(ctx, m, 0, o.stale(m)...) || told
}

// witness says of a machine that nobody looks at what its agent tells. One that has just registered
// is heard of within its first interval, or lost: until then there is nothing to say, and half as
// much for the log of a fleet that comes up.
func (o *lookout) witness(ctx context.Context, m *holdfastv1.Machine, why string) (told bool) {
	if m.GetStatus().GetAgentState() == holdfastv1.Agent_REGISTERED && condition(m, condReachable) == nil {
		return false
	}
	return o.tell(ctx, m, 0, o.unobserved(m, why)...)
}

// goodForATime reports whether time makes something else of a machine's conditions.
func goodForATime(m *holdfastv1.Machine) bool {
	return slices.ContainsFunc(m.GetStatus().GetConditions(), func(c *holdfastv1.Condition) bool { return c.GetFreshUntil() != nil })
}

// lane returns the looks of a kind at the machines of a provider, and begins them with the first
// machine.
func (o *lookout) lane(provider string, kind lookKind) *lane {
	o.mu.Lock()
	defer o.mu.Unlock()
	key := laneKey{provider, kind}
	if l := o.lanes[key]; l != nil {
		return l
	}
	pace := o.paces[provider]
	if pace == nil {
		pace = newPacer(o.providers.Calls(provider), o.all, func(waited time.Duration) { o.metrics.called(provider, waited) })
		o.paces[provider] = pace
	}
	// Both kinds of looks live from the same budget: a share of it is the health's, so that neither
	// starves.
	budget, parallel, look := max(1, o.share(provider)*4/5), o.cfg.Parallel, o.reach
	if kind == lookHealth {
		budget, parallel, look = max(1, o.share(provider)/5), max(1, o.cfg.Parallel/4), o.health
	}
	l := newLane(parallel, pace, o.period(kind), budget, o.began)
	o.lanes[key] = l
	o.group.Go(func() error {
		return l.run(o.ctx, func(e *entry) *holdfastv1.Machine { return o.due(e, kind) },
			func(ctx context.Context, e *entry, m *holdfastv1.Machine) {
				defer o.lookPanicked(provider, kind, e)
				look(ctx, l, e, m)
			})
	})
	return l
}

// lookPanicked recovers a look in which a provider has panicked: it has failed, like one that the
// hardware did not answer. Else the process would end, and the next leader would come to the same.
func (o *lookout) lookPanicked(provider string, kind lookKind, e *entry) {
	if p := recover(); p != nil {
		o.cfg.Logger.Error("a look at a machine has panicked", "machine", e.id, "provider", provider, "panic", p, "stack", string(debug.Stack()))
		o.looked(e, provider, kind, true)
	}
}

// share returns the calls a second that a provider has: its own budget, or all that there are.
func (o *lookout) share(provider string) int { return min(o.providers.Calls(provider), o.cfg.Calls) }

// deferred is how many looks in a row a run has precedence over.
const deferred = 3

// due returns a machine that may be looked at now. While a run is at work on it, its BMC and its
// host have better things to do: it is looked at now and then, and not for its health.
func (o *lookout) due(e *entry, kind lookKind) *holdfastv1.Machine {
	m, ok := o.state.View().Machine(e.id)
	if !ok || m.GetStatus().GetPhase() == holdfastv1.MachineStatus_RETIRED {
		return nil
	}
	if m.GetStatus().GetActiveRunId() != "" && (kind == lookHealth || e.skipped < deferred) {
		e.skipped++
		o.metrics.looked(o.providers.NameOf(m), kind, "skipped")
		return nil
	}
	e.skipped = 0
	return m
}

// drop takes a machine out of all lanes, and puts down the provider that it has now.
func (o *lookout) drop(id, provider string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if was := o.placed[id]; was != "" {
		for _, kind := range []lookKind{lookReach, lookHealth} {
			if l := o.lanes[laneKey{was, kind}]; l != nil {
				l.drop(id)
			}
		}
	}
	if o.placed[id] = provider; provider == "" {
		delete(o.placed, id)
	}
}

// soon makes a machine due at once, in all its lanes.
func (o *lookout) soon(id string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, kind := range []lookKind{lookReach, lookHealth} {
		if l := o.lanes[laneKey{o.placed[id], kind}]; l != nil {
			l.soon(id)
		}
	}
}

// stale returns the conditions that the record reads as stale and does not say so yet: once, so
// that those who follow it learn of it. A new leader first looks for itself.
func (o *lookout) stale(m *holdfastv1.Machine) []*holdfastv1.Condition {
	var all []*holdfastv1.Condition
	for _, c := range m.GetStatus().GetConditions() {
		kind := lookReach
		if c.GetType() == condDegraded {
			kind = lookHealth
		}
		if c.GetFreshUntil() == nil || c.GetReason() != fsm.Stale || time.Since(o.began) < 2*o.period(kind) {
			continue
		}
		c.ObservedAt = at(time.Now())
		all = append(all, c)
	}
	return all
}

// observe reports how the looks keep up.
func (o *lookout) observe() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for key, l := range o.lanes {
		machines, late, period := l.state()
		o.metrics.lane(key, machines, late, period)
	}
}
