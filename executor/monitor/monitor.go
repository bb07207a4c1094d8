// Package monitor is the leader task that polls machines and records their conditions. It owns the
// schedule of the polls and the budgets of calls. It must not change anything on a machine; to
// restart a silent BMC, it starts a run.
package monitor

import (
	"context"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/time/rate"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
	"github.com/holdfast-metal/holdfast/providers"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// pollKind is a kind of poll.
type pollKind string

const (
	pollReach  pollKind = "reach"  // host, BMC and node: one or two calls
	pollHealth pollKind = "health" // the health of the parts, from the BMC
)

type pollKey struct {
	provider string
	kind     pollKind
}

// term is the state of a Monitor in one term. It has a queue of polls for each
// provider and kind. One more queue only reads the recorded machines, to find the queues
// that a machine belongs to and its stale conditions.
type term struct {
	*Monitor
	epoch    uint64
	began    time.Time
	ctx      context.Context
	group    *errgroup.Group
	records  *pollQueue
	all      *rate.Limiter
	recovers *rate.Limiter
	changes  chan *internalv1.MachineConditions

	mu         sync.Mutex
	queues     map[pollKey]*pollQueue
	limiters   map[string]*limiter // by provider
	providerOf map[string]string   // by machine
}

func newTerm(ctx context.Context, r *Monitor, epoch uint64) *term {
	g, gctx := errgroup.WithContext(ctx)
	free := newLimiter(recordPace, nil, func(time.Duration) {})
	mon := &term{
		Monitor:    r,
		epoch:      epoch,
		began:      time.Now(),
		ctx:        gctx,
		group:      g,
		records:    newPollQueue(1, free, r.period(pollReach), recordBudget, time.Now()),
		all:        rate.NewLimiter(rate.Every(gapOf(r.cfg.Calls)), 1),
		recovers:   rate.NewLimiter(rate.Every(recoverGap), 1),
		changes:    make(chan *internalv1.MachineConditions, r.cfg.Parallel),
		queues:     map[pollKey]*pollQueue{},
		limiters:   map[string]*limiter{},
		providerOf: map[string]string{},
	}
	mon.records.batchWindow = recordWindow
	return mon
}

// period returns the interval between polls of a machine if the budget allows it. It is a
// little shorter than configured, because polls may be late.
func (r *Monitor) period(kind pollKind) time.Duration {
	if kind == pollHealth {
		return r.cfg.HealthInterval * 9 / 10
	}
	return r.cfg.Interval * 9 / 10
}

// read returns a machine from the state, or nil if there is nothing to do for it. A
// machine that has not changed since there was nothing to do is not read again. In a
// large fleet with agents, that is nearly all machines.
func (mon *term) read(e *pollEntry) *holdfastv1.Machine {
	view := mon.state.View()
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
		mon.drop(e.id, "")
		return nil
	}
	return m
}

// schedule adds a machine to the queues of its provider, and reports the conditions that are
// known without a call.
func (mon *term) schedule(ctx context.Context, e *pollEntry, m *holdfastv1.Machine) {
	e.settled, e.among = nil, nil
	if !mon.refresh(ctx, m) && !canExpire(m) {
		e.settled = e.mark
	}
}

// refresh does the work of schedule, and returns whether conditions were reported. If so,
// the next read checks that they were recorded.
func (mon *term) refresh(ctx context.Context, m *holdfastv1.Machine) (reported bool) {
	id, name := m.GetMachineId(), mon.providers.NameOf(m)
	mon.mu.Lock()
	moved := mon.providerOf[id] != name
	mon.mu.Unlock()
	if moved {
		mon.drop(id, name)
	}
	p, err := mon.providers.Of(m)
	if err != nil {
		return mon.reportUnobserved(ctx, m, "NoProvider")
	}
	_, inspects := p.(providers.Inspector)
	_, joins := p.(providers.ClusterJoiner)
	if inspects || joins {
		calls := 1
		if inspects && joins && clusterToPoll(m) != "" {
			calls = 2
		}
		never := condition(m, condReachable) == nil && condition(m, condBMCReachable) == nil
		mon.queue(name, pollReach).enqueue(id, calls, never)
	}
	if !inspects {
		reported = mon.reportUnobserved(ctx, m, "NotObservable")
	}
	if _, ok := p.(providers.HealthReader); ok {
		mon.queue(name, pollHealth).enqueue(id, 1, condition(m, condDegraded) == nil)
	}
	return mon.report(ctx, m, 0, mon.stale(m)...) || reported
}

// reportUnobserved reports the conditions of a machine that its provider cannot observe. It waits
// for the first heartbeat of an agent that has just registered, or for its loss. That
// halves the number of log entries when a fleet starts up.
func (mon *term) reportUnobserved(ctx context.Context, m *holdfastv1.Machine, why string) (reported bool) {
	if m.GetStatus().GetAgentState() == holdfastv1.Agent_REGISTERED && condition(m, condReachable) == nil {
		return false
	}
	return mon.report(ctx, m, 0, mon.agentConditions(m, why)...)
}

// canExpire reports whether any condition of the machine can become stale.
func canExpire(m *holdfastv1.Machine) bool {
	return slices.ContainsFunc(m.GetStatus().GetConditions(), func(c *holdfastv1.Condition) bool {
		return c.GetFreshUntil() != nil
	})
}

// queue returns the queue of a provider and kind. It starts the queue if there is none.
func (mon *term) queue(provider string, kind pollKind) *pollQueue {
	mon.mu.Lock()
	defer mon.mu.Unlock()
	key := pollKey{provider, kind}
	if q := mon.queues[key]; q != nil {
		return q
	}
	limit := mon.limiters[provider]
	if limit == nil {
		spent := func(waited time.Duration) { mon.metrics.called(provider, waited) }
		limit = newLimiter(mon.providers.Calls(provider), mon.all, spent)
		mon.limiters[provider] = limit
	}
	// Both kinds of polls share one budget of calls. Health polls get a fixed part of it,
	// so that neither kind starves.
	budget, parallel, poll := max(1, mon.share(provider)*4/5), mon.cfg.Parallel, mon.reach
	if kind == pollHealth {
		budget, parallel, poll = max(1, mon.share(provider)/5), max(1, mon.cfg.Parallel/4), mon.health
	}
	q := newPollQueue(parallel, limit, mon.period(kind), budget, mon.began)
	mon.queues[key] = q
	mon.group.Go(func() error {
		return q.run(mon.ctx, func(e *pollEntry) *holdfastv1.Machine { return mon.due(e, kind) },
			func(ctx context.Context, e *pollEntry, m *holdfastv1.Machine) {
				defer mon.recoverPoll(provider, kind, e)
				poll(ctx, q, e, m)
			})
	})
	return q
}

// recoverPoll recovers from a panic of a provider and counts the poll as failed. Without
// it the process would end, and so would each next leader.
func (mon *term) recoverPoll(provider string, kind pollKind, e *pollEntry) {
	if p := recover(); p != nil {
		mon.cfg.Logger.Error("polling a machine panicked",
			"machine", e.id, "provider", provider, "panic", p, "stack", string(debug.Stack()))
		mon.polled(e, provider, kind, true)
	}
}

// share returns the calls per second that a provider may get: its own budget, or the
// common one if that is smaller.
func (mon *term) share(provider string) int {
	return min(mon.providers.Calls(provider), mon.cfg.Calls)
}

// deferred is the number of polls in a row that are skipped during a run.
const deferred = 3

// due returns the machine of an entry if it may be polled now, or nil. During a run only
// every fourth poll is made, and none of the health, to keep the load off its BMC and
// host.
func (mon *term) due(e *pollEntry, kind pollKind) *holdfastv1.Machine {
	m, ok := mon.state.View().Machine(e.id)
	if !ok || m.GetStatus().GetPhase() == holdfastv1.MachineStatus_RETIRED {
		return nil
	}
	if m.GetStatus().GetActiveRunId() != "" && (kind == pollHealth || e.skipped < deferred) {
		e.skipped++
		mon.metrics.polled(mon.providers.NameOf(m), kind, "skipped")
		return nil
	}
	e.skipped = 0
	return m
}

// drop removes a machine from all queues, and sets its new provider.
func (mon *term) drop(id, provider string) {
	mon.mu.Lock()
	defer mon.mu.Unlock()
	if was := mon.providerOf[id]; was != "" {
		for _, kind := range []pollKind{pollReach, pollHealth} {
			if q := mon.queues[pollKey{was, kind}]; q != nil {
				q.drop(id)
			}
		}
	}
	if mon.providerOf[id] = provider; provider == "" {
		delete(mon.providerOf, id)
	}
}

// pollNow makes a machine due at once, in all its queues.
func (mon *term) pollNow(id string) {
	mon.mu.Lock()
	defer mon.mu.Unlock()
	for _, kind := range []pollKind{pollReach, pollHealth} {
		if q := mon.queues[pollKey{mon.providerOf[id], kind}]; q != nil {
			q.pollNow(id)
		}
	}
}

// stale returns the conditions that have expired but are not yet marked stale in the
// state. Each is reported once, so that watchers learn of it. A new leader polls for two
// periods first.
func (mon *term) stale(m *holdfastv1.Machine) []*holdfastv1.Condition {
	var all []*holdfastv1.Condition
	for _, c := range m.GetStatus().GetConditions() {
		kind := pollReach
		if c.GetType() == condDegraded {
			kind = pollHealth
		}
		if c.GetFreshUntil() == nil || c.GetReason() != fsm.Stale || time.Since(mon.began) < 2*mon.period(kind) {
			continue
		}
		c.ObservedAt = timestamppb.New(time.Now())
		all = append(all, c)
	}
	return all
}

// observe updates the metrics of the queues.
func (mon *term) observe() {
	mon.mu.Lock()
	defer mon.mu.Unlock()
	for key, q := range mon.queues {
		machines, late, period := q.state()
		mon.metrics.queue(key, machines, late, period)
	}
}
