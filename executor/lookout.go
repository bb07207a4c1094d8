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

// lookKind is a kind of poll.
type lookKind string

const (
	lookReach  lookKind = "reach"  // host, BMC and node: one or two calls
	lookHealth lookKind = "health" // the health of the parts, from the BMC
)

type laneKey struct {
	provider string
	kind     lookKind
}

// lookout is the state of a Reconciler in one term. It has a queue of polls for each
// provider and kind. One more queue only reads the recorded machines, to find the queues
// that a machine belongs to and its stale conditions.
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
	placed map[string]string // provider of each machine
}

func newLookout(ctx context.Context, r *Reconciler, epoch uint64) *lookout {
	g, gctx := errgroup.WithContext(ctx)
	free := newPacer(recordPace, nil, func(time.Duration) {})
	o := &lookout{
		Reconciler: r,
		epoch:      epoch,
		began:      time.Now(),
		ctx:        gctx,
		group:      g,
		records:    newLane(1, free, r.period(lookReach), recordBudget, time.Now()),
		all:        rate.NewLimiter(rate.Every(gapOf(r.cfg.Calls)), 1),
		recovers:   rate.NewLimiter(rate.Every(recoverGap), 1),
		news:       make(chan *internalv1.MachineConditions, r.cfg.Parallel),
		lanes:      map[laneKey]*lane{},
		paces:      map[string]*pacer{},
		placed:     map[string]string{},
	}
	o.records.grain = recordGrain
	return o
}

// period returns the interval between polls of a machine if the budget allows it. It is a
// little shorter than configured, because polls may be late.
func (r *Reconciler) period(kind lookKind) time.Duration {
	if kind == lookHealth {
		return r.cfg.HealthInterval * 9 / 10
	}
	return r.cfg.Interval * 9 / 10
}

// read returns a machine from the state, or nil if there is nothing to do for it. A
// machine that has not changed since there was nothing to do is not read again. In a
// large fleet with agents, that is nearly all machines.
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

// place adds a machine to the queues of its provider, and reports the conditions that are
// known without a call.
func (o *lookout) place(ctx context.Context, e *entry, m *holdfastv1.Machine) {
	e.settled, e.among = nil, nil
	if !o.situate(ctx, m) && !goodForATime(m) {
		e.settled = e.mark
	}
}

// situate does the work of place, and returns whether conditions were reported. If so,
// the next read checks that they were recorded.
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
		never := condition(m, condReachable) == nil && condition(m, condBMCReachable) == nil
		o.lane(name, lookReach).ensure(id, calls, never)
	}
	if !inspects {
		told = o.witness(ctx, m, "NotObservable")
	}
	if _, ok := p.(providers.HealthReader); ok {
		o.lane(name, lookHealth).ensure(id, 1, condition(m, condDegraded) == nil)
	}
	return o.tell(ctx, m, 0, o.stale(m)...) || told
}

// witness reports the conditions of a machine that its provider cannot observe. It waits
// for the first heartbeat of an agent that has just registered, or for its loss. That
// halves the number of log entries when a fleet starts up.
func (o *lookout) witness(ctx context.Context, m *holdfastv1.Machine, why string) (told bool) {
	if m.GetStatus().GetAgentState() == holdfastv1.Agent_REGISTERED && condition(m, condReachable) == nil {
		return false
	}
	return o.tell(ctx, m, 0, o.unobserved(m, why)...)
}

// goodForATime reports whether any condition of the machine can become stale.
func goodForATime(m *holdfastv1.Machine) bool {
	return slices.ContainsFunc(m.GetStatus().GetConditions(), func(c *holdfastv1.Condition) bool {
		return c.GetFreshUntil() != nil
	})
}

// lane returns the queue of a provider and kind. It starts the queue with the first machine.
func (o *lookout) lane(provider string, kind lookKind) *lane {
	o.mu.Lock()
	defer o.mu.Unlock()
	key := laneKey{provider, kind}
	if l := o.lanes[key]; l != nil {
		return l
	}
	pace := o.paces[provider]
	if pace == nil {
		spent := func(waited time.Duration) { o.metrics.called(provider, waited) }
		pace = newPacer(o.providers.Calls(provider), o.all, spent)
		o.paces[provider] = pace
	}
	// Both kinds of polls share one budget of calls. Health polls get a fixed part of it,
	// so that neither kind starves.
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

// lookPanicked recovers from a panic of a provider and counts the poll as failed. Without
// it the process would end, and so would each next leader.
func (o *lookout) lookPanicked(provider string, kind lookKind, e *entry) {
	if p := recover(); p != nil {
		o.cfg.Logger.Error("polling a machine panicked",
			"machine", e.id, "provider", provider, "panic", p, "stack", string(debug.Stack()))
		o.looked(e, provider, kind, true)
	}
}

// share returns the calls per second that a provider may get: its own budget, or the
// common one if that is smaller.
func (o *lookout) share(provider string) int { return min(o.providers.Calls(provider), o.cfg.Calls) }

// deferred is the number of polls in a row that are skipped during a run.
const deferred = 3

// due returns the machine of an entry if it may be polled now, or nil. During a run only
// every fourth poll is made, and none of the health, to keep the load off its BMC and
// host.
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

// drop removes a machine from all queues, and sets its new provider.
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

// soon makes a machine due at once, in all its queues.
func (o *lookout) soon(id string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, kind := range []lookKind{lookReach, lookHealth} {
		if l := o.lanes[laneKey{o.placed[id], kind}]; l != nil {
			l.soon(id)
		}
	}
}

// stale returns the conditions that have expired but are not yet marked stale in the
// state. Each is reported once, so that watchers learn of it. A new leader polls for two
// periods first.
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

// observe updates the metrics of the queues.
func (o *lookout) observe() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for key, l := range o.lanes {
		machines, late, period := l.state()
		o.metrics.lane(key, machines, late, period)
	}
}
