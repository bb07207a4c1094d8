package monitor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-metal/holdfast/cluster/leader"
	"github.com/holdfast-metal/holdfast/fsm"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
	"github.com/holdfast-metal/holdfast/providers"
	"github.com/holdfast-metal/holdfast/providers/fake"
)

// counted is a provider that records its calls, and answers as configured.
type counted struct {
	answer func(ctx context.Context, m providers.Machine) (providers.Facts, error) // nil: healthy
	health providers.Health

	mu    sync.Mutex
	calls []time.Time
	seen  map[string][]time.Time // by machine, of Inspect
	dear  map[string]int         // by machine, of Health
}

func (c *counted) Kind() string { return "counted" }

func (c *counted) Inspect(ctx context.Context, m providers.Machine) (providers.Facts, error) {
	c.mu.Lock()
	if c.seen == nil {
		c.seen, c.dear = map[string][]time.Time{}, map[string]int{}
	}
	c.calls = append(c.calls, time.Now())
	c.seen[m.GetMachineId()] = append(c.seen[m.GetMachineId()], time.Now())
	answer := c.answer
	c.mu.Unlock()
	if answer != nil {
		return answer(ctx, m)
	}
	time.Sleep(20 * time.Millisecond) // sleep: the response time of a BMC, in fake time
	return providers.Facts{Reachable: true, ReachableReason: "PingOK", BMCReachable: true, BMCReason: "RedfishOK"}, nil
}

func (c *counted) Health(_ context.Context, m providers.Machine) (providers.Health, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls = append(c.calls, time.Now())
	if c.dear == nil {
		c.seen, c.dear = map[string][]time.Time{}, map[string]int{}
	}
	c.dear[m.GetMachineId()]++
	return c.health, nil
}

func (c *counted) set(answer func(context.Context, providers.Machine) (providers.Facts, error)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.answer = answer
}

// most returns the maximum number of times within any second.
func most(times []time.Time) int {
	times = slices.SortedFunc(slices.Values(times), time.Time.Compare)
	n, first := 0, 0
	for i, t := range times {
		for t.Sub(times[first]) >= time.Second {
			first++
		}
		n = max(n, i-first+1)
	}
	return n
}

// fleetOf registers machines of a provider.
func (l *lab) fleetOf(provider string, n int) {
	for i := range n {
		l.Must(&internalv1.Command{Op: &internalv1.Command_RegisterMachine{RegisterMachine: &internalv1.RegisterMachine{
			Machine: &holdfastv1.Machine{MachineId: fmt.Sprintf("%s-%05d", provider, i),
				Spec: &holdfastv1.MachineSpec{Provider: provider}}}}})
	}
}

// term runs a reconciler as the leader of a new term, until stop.
func (l *lab) term(cfg Config) (stop func()) {
	l.T.Helper()
	epoch := l.Establish()
	ctx, cancel := context.WithCancel(l.T.Context())
	done := make(chan error, 1)
	go func() { done <- New(cfg, l, l.FSM, l.Set).Run(ctx, leader.NewTerm(epoch, nil)) }()
	return func() {
		l.T.Helper()
		cancel()
		if err := <-done; err != nil {
			l.T.Errorf("reconciler: %v", err)
		}
	}
}

// With ten thousand machines, no second has more calls than the budget, and every machine is polled
// within its interval. A new leader continues on schedule, without a burst of polls.
func TestTenThousandMachinesArePolledEvenly(t *testing.T) {
	t.Parallel()
	const machines, budget, interval = 10_000, 2000, 30 * time.Second
	synctest.Test(t, func(t *testing.T) {
		l, p := newLab(t, fake.Config{}), &counted{}
		l.Set = providers.SetOf(map[string]providers.Provider{"dc": p}, providers.WithCalls("dc", budget))
		l.fleetOf("dc", machines)
		cfg := Config{Interval: interval, Calls: 2 * budget}
		stop := l.term(cfg)
		time.Sleep(2 * interval) // sleep: of the fake clock
		stop()
		changed, before := time.Now(), len(p.calls)
		stop = l.term(cfg)
		time.Sleep(2 * interval) // sleep: of the fake clock
		stop()
		if got := most(p.calls); got > budget {
			t.Errorf("got %d calls within a second, want at most %d", got, budget)
		}
		// In the first interval after the change, no second has much more than its share.
		var after []time.Time
		for _, c := range p.calls[before:] {
			if c.Sub(changed) < interval {
				after = append(after, c)
			}
		}
		if share := int(machines / (interval * 9 / 10).Seconds()); most(after) > share*5/2 {
			t.Errorf("got %d calls within a second after the change, want %d, and at most two and a half times that",
				most(after), share)
		}
		end := time.Now()
		for id, times := range p.seen {
			last := times[0]
			for _, at := range append(times[1:], end) {
				if gap := at.Sub(last); gap > interval {
					t.Fatalf("%s: got no poll for %v, want at most %v", id, gap, interval)
				}
				last = at
			}
		}
		if len(p.seen) != machines {
			t.Errorf("got polls of %d machines, want %d", len(p.seen), machines)
		}
	})
}

// If the budget is too small for the interval, the interval grows. The common budget limits all
// providers together.
func TestBudgetTakesPrecedenceOverInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, a, b := newLab(t, fake.Config{}), &counted{}, &counted{}
		l.Set = providers.SetOf(map[string]providers.Provider{"a": a, "b": b}, providers.WithCalls("a", 7))
		l.fleetOf("a", 300)
		l.fleetOf("b", 300)
		stop := l.term(Config{Interval: 10 * time.Second, Calls: 40})
		time.Sleep(5 * time.Minute) // sleep: of the fake clock
		stop()
		if got := most(a.calls); got > 7 {
			t.Errorf("got %d calls of a within a second, want 7", got)
		}
		if got := most(append(a.calls, b.calls...)); got > 40 {
			t.Errorf("got %d calls within a second, want 40", got)
		}
		if len(a.seen) != 300 || len(b.seen) != 300 {
			t.Errorf("got polls of %d and %d machines, want all 300 of both", len(a.seen), len(b.seen))
		}
		for id, times := range a.seen {
			if len(times) < 2 {
				t.Errorf("%s: got %d polls in five minutes", id, len(times))
			}
		}
	})
}

// A provider that never answers delays only its own machines. Their conditions become stale, or
// unknown with the reason.
func TestSilentProviderDelaysOnlyItsMachines(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l, dead, well := newLab(t, fake.Config{}), &counted{}, &counted{}
		l.Set = providers.SetOf(map[string]providers.Provider{"dead": dead, "well": well})
		l.fleetOf("dead", 2000)
		l.fleetOf("well", 500)
		stop := l.term(Config{Interval: 30 * time.Second})
		time.Sleep(2 * time.Minute) // sleep: of the fake clock
		dead.set(func(ctx context.Context, _ providers.Machine) (providers.Facts, error) {
			<-ctx.Done()
			return providers.Facts{}, ctx.Err()
		})
		began := time.Now()
		time.Sleep(4 * time.Minute) // sleep: of the fake clock
		stale := 0
		for m := range l.FSM.View().Machines("") {
			if c := condition(m, condReachable); m.GetSpec().GetProvider() == "dead" && c.GetReason() == fsm.Stale {
				stale++
			}
		}
		if stale == 0 {
			t.Error("got no stale condition, although not all machines were polled")
		}
		time.Sleep(11 * time.Minute) // sleep: of the fake clock
		stop()
		for id, times := range well.seen {
			for i := range times[1:] {
				if gap := times[i+1].Sub(times[i]); times[i].After(began) && gap > 30*time.Second {
					t.Fatalf("%s: got no poll for %v", id, gap)
				}
			}
		}
		reasons := map[string]int{}
		for m := range l.FSM.View().Machines("") {
			c := condition(m, condReachable)
			reasons[m.GetSpec().GetProvider()+" "+fsm.ConditionStatus(c)+" "+c.GetReason()]++
			if c.GetUnknown() && (c.GetUnknownSince() == nil || !c.GetStatus()) {
				t.Errorf("%s: got %v, want the time and the last known status", m.GetMachineId(), c)
			}
		}
		if reasons["well true PingOK"] != 500 || reasons["dead unknown ProviderTimeout"] != 2000 {
			t.Errorf("got conditions %v, want those of well true and those of dead unknown", reasons)
		}
		// The change is one event: one entry in the history, however long it lasts.
		for m := range l.FSM.View().Machines("dead-01990") {
			n := 0
			for h := range l.FSM.View().History(m.GetMachineId(), 0) {
				if h.GetFacet() == "condition" && m.GetSpec().GetProvider() == "dead" &&
					h.GetTo()[:len("Reachable=unknown")] == "Reachable=unknown" {
					n++
				}
			}
			if m.GetSpec().GetProvider() == "dead" && n != 1 {
				t.Errorf("%s: got %d entries for unknown, want 1", m.GetMachineId(), n)
			}
		}
	})
}

// An unknown condition has the reason.
func TestReasonsOfTheUnknown(t *testing.T) {
	reported := func(f providers.Facts, err error) func(context.Context, providers.Machine) (providers.Facts, error) {
		return func(context.Context, providers.Machine) (providers.Facts, error) { return f, err }
	}
	noKey := &providers.NotAsked{Reason: "NoSecretsKey", Err: errors.New("no key")}
	for name, tt := range map[string]struct {
		provider       string
		agent          holdfastv1.Agent_State
		answer         func(context.Context, providers.Machine) (providers.Facts, error)
		reachable, bmc string
	}{
		"no such provider": {provider: "none", reachable: "unknown NoProvider", bmc: "unknown NoProvider"},
		"no key for secrets": {answer: reported(providers.Facts{},
			providers.Errorf(providers.Transient, "look", "%w", noKey)), reachable: "unknown NoSecretsKey",
			bmc: "unknown NoSecretsKey"},
		"only the BMC not probed": {answer: reported(providers.Facts{Reachable: true, ReachableReason: "SSHOK",
			BMCUnknown: true, BMCReason: "NoSecretsKey"}, nil), reachable: "true SSHOK", bmc: "unknown NoSecretsKey"},
		"the provider refuses us": {answer: reported(providers.Facts{},
			providers.Errorf(providers.Auth, "look", "no")), reachable: "unknown AuthFailed", bmc: "unknown AuthFailed"},
		"provider fails": {answer: reported(providers.Facts{}, errors.New("500")),
			reachable: "unknown ProviderFailed", bmc: "unknown ProviderFailed"},
		"machine not found": {answer: reported(providers.Facts{},
			providers.Errorf(providers.Gone, "look", "404")), reachable: "false Gone", bmc: "false Gone"},
		"powered off": {answer: reported(providers.Facts{ReachableReason: "PoweredOff", BMCReachable: true,
			BMCReason: "IPMIOK"}, nil), reachable: "false PoweredOff", bmc: "true IPMIOK"},
		"known from the agent only": {agent: holdfastv1.Agent_READY,
			answer: reported(providers.Facts{ReachableUnknown: true, ReachableReason: "NotProbed", BMCReachable: true,
				BMCReason: "IPMIOK"}, nil), reachable: "true AgentKeepalive", bmc: "true IPMIOK"},
		"silent agent": {agent: holdfastv1.Agent_EXPIRED, provider: "none",
			reachable: "unknown AgentSilent", bmc: "unknown NoProvider"},
		"silent, but the host answers": {agent: holdfastv1.Agent_EXPIRED,
			answer: reported(providers.Facts{Reachable: true, ReachableReason: "SSHOK", BMCReachable: true,
				BMCReason: "IPMIOK"}, nil), reachable: "true SSHOK", bmc: "true IPMIOK"},
	} {
		t.Run(name, func(t *testing.T) {
			m := &holdfastv1.Machine{MachineId: "m-1", Spec: &holdfastv1.MachineSpec{Provider: "p"},
				Status: &holdfastv1.MachineStatus{AgentState: tt.agent}}
			if tt.provider != "" {
				m.Spec.Provider = tt.provider
			}
			set := providers.SetOf(map[string]providers.Provider{"p": &counted{answer: tt.answer}})
			mon := newTerm(t.Context(), New(Config{}, nil, nil, set), 1)
			if _, err := set.Of(m); err != nil {
				mon.schedule(t.Context(), &pollEntry{}, m)
			} else {
				l := newPollQueue(1, newLimiter(0, nil, func(time.Duration) {}), time.Minute, 0, time.Now())
				mon.reach(t.Context(), l, &pollEntry{}, m)
			}
			got := map[string]string{}
			for _, c := range (<-mon.changes).GetConditions() {
				got[c.GetType()] = fsm.ConditionStatus(c) + " " + c.GetReason()
				if c.GetObservedAt() == nil || c.GetUnknown() == (c.GetFreshUntil() != nil) {
					t.Errorf("condition %v: want observed_at, and an expiry if it is known", c)
				}
			}
			if got[condReachable] != tt.reachable || got[condBMCReachable] != tt.bmc {
				t.Errorf("got %v, want Reachable %s, BMCReachable %s", got, tt.reachable, tt.bmc)
			}
		})
	}
}
