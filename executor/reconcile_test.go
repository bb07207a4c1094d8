package executor

import (
	"context"
	"testing"
	"time"

	"github.com/holdfast-metal/holdfast/cluster"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
	"github.com/holdfast-metal/holdfast/providers/fake"
)

// reconcile runs a reconciler and an executor in the same term.
func (l *lab) reconcile(cfg ReconcilerConfig) {
	ctx, cancel := context.WithCancel(l.t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := NewReconciler(cfg, l, l.fsm, l.set).Run(ctx, cluster.NewTerm(l.epoch, nil)); err != nil {
			l.t.Errorf("reconciler: %v", err)
		}
	}()
	l.t.Cleanup(func() { cancel(); <-done })
}

// condition waits until a condition of a machine is as wanted, and returns it.
func (l *lab) condition(machine, kind string, status bool) *holdfastv1.Condition {
	l.t.Helper()
	deadline := time.After(5 * time.Minute)
	for {
		changed := l.fsm.Changed()
		m, _ := l.fsm.View().Machine(machine)
		for _, c := range m.GetStatus().GetConditions() {
			if c.GetType() == kind && c.GetStatus() == status {
				return c
			}
		}
		select {
		case <-changed:
		case <-deadline:
			l.t.Fatalf("condition %s of %s is not %t in time: %v", kind, machine, status, m.GetStatus().GetConditions())
		}
	}
}

func TestConditionsFollowTheMachine(t *testing.T) {
	t.Parallel()
	l := newLab(t, fake.Config{})
	l.must(&internalv1.Command{Op: &internalv1.Command_RegisterMachine{RegisterMachine: &internalv1.RegisterMachine{
		Machine: &holdfastv1.Machine{MachineId: "m-1", Spec: &holdfastv1.MachineSpec{TargetClusterRef: "c"}}}}})
	l.lead(quick())
	l.reconcile(ReconcilerConfig{Interval: 20 * time.Millisecond})
	up := l.condition("m-1", "Reachable", true)
	l.condition("m-1", "BMCReachable", true)
	l.condition("m-1", "InCustomerCluster", false)
	if err := l.fleet.SetFaults(fake.Faults{Gone: true}, nil); err != nil {
		t.Fatal(err)
	}
	down := l.condition("m-1", "Reachable", false)
	if down.GetReason() == up.GetReason() || !down.GetLastTransition().AsTime().After(up.GetLastTransition().AsTime()) {
		t.Errorf("condition went from %v to %v, want another reason and a later transition", up, down)
	}
}

// A machine whose run has ended is polled at once, because its conditions are from before
// the run.
func TestConditionsAreLookedAtWhenARunEnds(t *testing.T) {
	t.Parallel()
	l := newLab(t, fake.Config{})
	l.machine("m-1")
	l.lead(quick())
	l.reconcile(ReconcilerConfig{Interval: time.Hour})
	l.condition("m-1", "Reachable", true)
	if run := l.ended(l.start("m-1", "RMA", "", nil).GetRunId()); run.GetPhase() != holdfastv1.Run_SUCCEEDED {
		t.Fatalf("run: %v", run)
	}
	l.condition("m-1", "Reachable", false)
}

func TestNothingNewIsNotCommitted(t *testing.T) {
	t.Parallel()
	l := newLab(t, fake.Config{})
	l.machine("m-1")
	l.lead(quick())
	l.reconcile(ReconcilerConfig{Interval: 5 * time.Millisecond})
	l.condition("m-1", "BMCReachable", true)
	l.condition("m-1", "Degraded", false) // its health is news of its own
	before := l.fsm.Applied()
	l.machine("m-2") // a later machine is seen: passes have gone on meanwhile
	l.condition("m-2", "BMCReachable", true)
	if n := l.fsm.Applied() - before; n > 3 {
		t.Errorf("%d entries, want 3: the registration, and the news of the new machine and of its health", n)
	}
}
