package monitor

import (
	"context"
	"testing"
	"time"

	"github.com/holdfast-metal/holdfast/cluster/leader"
	"github.com/holdfast-metal/holdfast/fsm"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
	"github.com/holdfast-metal/holdfast/providers"
	"github.com/holdfast-metal/holdfast/providers/fake"
)

// reconcile runs a reconciler and an executor in the same term.
func (l *lab) reconcile(cfg Config) {
	ctx, cancel := context.WithCancel(l.T.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := New(cfg, l, l.FSM, l.Set).Run(ctx, leader.NewTerm(l.Epoch(), nil)); err != nil {
			l.T.Errorf("reconciler: %v", err)
		}
	}()
	l.T.Cleanup(func() { cancel(); <-done })
}

// condition blocks until a condition of a machine has a status, and returns it.
func (l *lab) condition(machine, kind string, status bool) *holdfastv1.Condition {
	l.T.Helper()
	deadline := time.After(5 * time.Minute)
	for {
		changed := l.FSM.Changed()
		m, _ := l.FSM.View().Machine(machine)
		for _, c := range m.GetStatus().GetConditions() {
			if c.GetType() == kind && c.GetStatus() == status {
				return c
			}
		}
		select {
		case <-changed:
		case <-deadline:
			l.T.Fatalf("condition %s of %s is not %t in time: %v", kind, machine, status, m.GetStatus().GetConditions())
		}
	}
}

func TestConditionsFollowTheMachine(t *testing.T) {
	t.Parallel()
	l := newLab(t, fake.Config{})
	l.Must(&internalv1.Command{Op: &internalv1.Command_RegisterMachine{RegisterMachine: &internalv1.RegisterMachine{
		Machine: &holdfastv1.Machine{MachineId: "m-1", Spec: &holdfastv1.MachineSpec{TargetClusterRef: "c"}}}}})
	l.lead(quick())
	l.reconcile(Config{Interval: 20 * time.Millisecond})
	up := l.condition("m-1", "Reachable", true)
	l.condition("m-1", "BMCReachable", true)
	l.condition("m-1", "InCustomerCluster", false)
	if err := l.Fleet.SetFaults(fake.Faults{Gone: true}, nil); err != nil {
		t.Fatal(err)
	}
	down := l.condition("m-1", "Reachable", false)
	if down.GetReason() == up.GetReason() || !down.GetLastTransition().AsTime().After(up.GetLastTransition().AsTime()) {
		t.Errorf("got condition %v and then %v, want another reason and a later transition", up, down)
	}
}

// A machine whose run has ended is polled at once, because its conditions are older than the run.
func TestMachineIsPolledWhenRunEnds(t *testing.T) {
	t.Parallel()
	l := newLab(t, fake.Config{})
	l.Machine("m-1")
	l.lead(quick())
	l.reconcile(Config{Interval: time.Hour})
	l.condition("m-1", "Reachable", true)
	if run := l.Ended(l.Start("m-1", "RMA", "", nil).GetRunId()); run.GetPhase() != holdfastv1.Run_SUCCEEDED {
		t.Fatalf("run: %v", run)
	}
	l.condition("m-1", "Reachable", false)
}

func TestUnchangedConditionsAreNotCommitted(t *testing.T) {
	t.Parallel()
	l := newLab(t, fake.Config{})
	l.Machine("m-1")
	l.lead(quick())
	l.reconcile(Config{Interval: 5 * time.Millisecond})
	l.condition("m-1", "BMCReachable", true)
	l.condition("m-1", "Degraded", false) // its health is a separate change
	before := l.FSM.Applied()
	l.Machine("m-2") // a later machine was polled, so there were further passes
	l.condition("m-2", "BMCReachable", true)
	if n := l.FSM.Applied() - before; n > 3 {
		t.Errorf("got %d entries, want 3: the registration, and the conditions and health of the new machine", n)
	}
}

// A provider that panics in a poll of one machine does not end the polls of others.
func TestPanicInPoll(t *testing.T) {
	t.Parallel()
	l := newLab(t, fake.Config{})
	panics := make(chan struct{}, 1)
	answer := func(_ context.Context, m providers.Machine) (providers.Facts, error) {
		if m.GetMachineId() == "m-1" {
			select {
			case panics <- struct{}{}:
			default:
			}
			panic("index out of range")
		}
		return providers.Facts{Reachable: true}, nil
	}
	l.Set = providers.SetOf(map[string]providers.Provider{"fake": &counted{answer: answer}})
	l.Machine("m-1")
	l.lead(quick())
	l.reconcile(Config{Interval: 20 * time.Millisecond})
	<-panics
	l.Machine("m-2")
	l.condition("m-2", "Reachable", true)
}

// InCustomerCluster follows the node of every machine that joined in a run, whether the step, the
// run or the default names the cluster.
func TestInCustomerClusterIsReconciledAfterJoin(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name   string
		step   string
		params map[string]string
		want   string
	}{
		{"of the step", "prod", nil, "prod"},
		{"of the run", "", map[string]string{"cluster_ref": "dev"}, "dev"},
		{"the default", "", nil, "default"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			l := newLab(t, fake.Config{})
			l.Machine("m-1")
			l.Plan("p", stepOf("j", &holdfastv1.KubeadmJoin{ClusterRef: tc.step}))
			l.lead(quick())
			if run := l.Ended(l.Start("m-1", "", "p", tc.params).GetRunId()); run.GetPhase() != holdfastv1.Run_SUCCEEDED {
				t.Fatalf("run: %v", run)
			}
			m, _ := l.FSM.View().Machine("m-1")
			if got := m.GetStatus().GetClusterRef(); got != tc.want {
				t.Errorf("cluster_ref: got %q, want %q", got, tc.want)
			}
			l.reconcile(Config{Interval: 20 * time.Millisecond})
			l.Until(func(v *fsm.View) bool {
				m, _ := v.Machine("m-1")
				c := condition(m, condInCluster)
				return c.GetStatus() && c.GetFreshUntil() != nil
			})
		})
	}
}
