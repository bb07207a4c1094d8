package monitor

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-metal/holdfast/cluster/leader"
	"github.com/holdfast-metal/holdfast/executor/runs"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
	"github.com/holdfast-metal/holdfast/providers"
	"github.com/holdfast-metal/holdfast/providers/fake"
)

// wedged is a BMC that accepts connections and does not answer, until it is restarted or forever.
type wedged struct {
	*fake.Provider

	mu     sync.Mutex
	silent bool
	heals  bool // a restart repairs it
	resets []time.Time
}

func (p *wedged) set(silent bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.silent = silent
}

func (p *wedged) Inspect(ctx context.Context, m providers.Machine) (providers.Facts, error) {
	f, err := p.Provider.Inspect(ctx, m)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.silent {
		rested := len(p.resets) == 0 || time.Since(p.resets[len(p.resets)-1]) >= time.Hour // as in the provider bmc
		f.BMCReachable, f.BMCReason, f.BMCSilent = false, "BreakerOpen", rested
	}
	return f, err
}

func (p *wedged) ResetBMC(ctx context.Context, op providers.Op, m providers.Machine) error {
	err := p.Provider.ResetBMC(ctx, op, m)
	p.mu.Lock()
	defer p.mu.Unlock()
	if err == nil {
		p.resets, p.silent = append(p.resets, time.Now()), p.silent && !p.heals
	}
	return err
}

// leads starts a leader that also polls machines, and returns a function that ends its term.
func (l *lab) leads() (over func()) {
	ld := l.lead(runs.Config{})
	ctx, cancel := context.WithCancel(l.T.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = New(Config{}, l, l.FSM, l.Set).Run(ctx, leader.NewTerm(ld.Epoch, nil))
	}()
	over = func() { cancel(); <-done; ld.Stop() }
	l.T.Cleanup(over)
	return over
}

// recoveries returns the automatic runs.
func (l *lab) recoveries(machine string) (runs []*holdfastv1.Run) {
	for _, r := range l.FSM.View().MachineRuns(machine, "") {
		if r.GetPrincipal() == recoverer {
			runs = append(runs, r)
		}
	}
	return runs
}

func newWedged(t *testing.T, heals bool) (*lab, *wedged) {
	t.Helper()
	l := newLab(t, fake.Config{})
	p := &wedged{Provider: fake.New(l.Fleet), heals: heals, silent: true}
	l.Set = providers.SetOf(map[string]providers.Provider{"fake": p})
	l.Machine("m-1")
	return l, p
}

// A silent BMC is restarted by a recorded run, once, by any leader. That happens only if no effect
// can be in flight: not right after an election, not during a run and not right after one. The
// state of the machine does not change.
func TestSilentBMCIsRestarted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, p := newWedged(t, true)
		before, _ := l.FSM.View().Machine("m-1")
		over := l.leads()
		time.Sleep(time.Minute) // sleep: fake clock
		if got := l.recoveries("m-1"); len(got) != 0 {
			t.Fatalf("got %d runs a minute after the election, want none yet", len(got))
		}
		id := l.Start("m-1", "", "plan/identify-on", map[string]string{"for": "30m"}).GetRunId()
		time.Sleep(20 * time.Minute) // sleep: fake clock
		if got := l.recoveries("m-1"); len(got) != 0 {
			t.Fatalf("got %d runs during another one, want none", len(got))
		}
		l.Must(&internalv1.Command{Op: &internalv1.Command_CancelRun{CancelRun: &internalv1.CancelRun{RunId: id}}})
		l.Ended(id)
		time.Sleep(time.Minute) // sleep: fake clock
		if got := l.recoveries("m-1"); len(got) != 0 {
			t.Fatalf("got %d runs right after another one, want none yet", len(got))
		}
		over()
		l.leads()                   // the new leader does not know how long the former one waited
		time.Sleep(5 * time.Minute) // sleep: fake clock
		got := l.recoveries("m-1")
		if len(got) != 1 || l.Ended(got[0].GetRunId()).GetPhase() != holdfastv1.Run_SUCCEEDED || len(p.resets) != 1 {
			t.Fatalf("got runs %v and %d restarts, want one run that succeeded", got, len(p.resets))
		}
		if got[0].GetPlanId() != "plan/bmc-reset" {
			t.Errorf("got a run of %s", got[0].GetPlanId())
		}
		m, _ := l.FSM.View().Machine("m-1")
		if m.GetStatus().GetPhase() == holdfastv1.MachineStatus_PROVISIONING ||
			before.GetStatus().GetPhase() == holdfastv1.MachineStatus_PROVISIONING {
			t.Errorf("phase of the machine: got %s, want %s", m.GetStatus().GetPhase(), before.GetStatus().GetPhase())
		}
	})
}

// A BMC that is silent repeatedly is restarted once per hour, however often the leader changes.
func TestSilentBMCIsRestartedHourly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, p := newWedged(t, true)
		over := l.leads()
		for range 8 {
			time.Sleep(30 * time.Minute) // sleep: fake clock
			p.set(true)
			over()
			over = l.leads()
		}
		if n := len(p.resets); n < 3 || n > 4 {
			t.Errorf("got %d restarts in four hours, want 4", n)
		}
		for i := 1; i < len(p.resets); i++ {
			if gap := p.resets[i].Sub(p.resets[i-1]); gap < time.Hour {
				t.Errorf("got restarts %s apart", gap)
			}
		}
		if runs := l.recoveries("m-1"); len(runs) != len(p.resets) {
			t.Errorf("got %d runs for %d restarts", len(runs), len(p.resets))
		}
	})
}

// If the restart does not help, an operator is called once, and no leader acts again. The machine
// is not disturbed.
func TestSilentBMCAfterRestartNeedsOperator(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, p := newWedged(t, false)
		over := l.leads()
		time.Sleep(40 * time.Minute) // sleep: fake clock
		m, _ := l.FSM.View().Machine("m-1")
		runs := l.recoveries("m-1")
		if len(runs) != 1 || runs[0].GetPhase() != holdfastv1.Run_FAILED || !condition(m, condIntervention).GetStatus() {
			t.Fatalf("got runs %v, conditions %v, want one failed run and a call for an operator", runs,
				m.GetStatus().GetConditions())
		}
		if got := m.GetStatus().GetPhase(); got != holdfastv1.MachineStatus_READY {
			t.Errorf("phase of the machine: got %s, want READY as before", got)
		}
		over()
		l.leads()
		time.Sleep(90 * time.Minute) // sleep: fake clock
		if n := len(l.recoveries("m-1")); n != 1 || len(p.resets) != 1 {
			t.Errorf("got %d runs and %d restarts, want no more", n, len(p.resets))
		}
	})
}
