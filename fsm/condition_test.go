package fsm_test

import (
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/holdfast-metal/holdfast/fsm/fsmtest"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

func observe(t *testing.T, p *fsmtest.Peer, machine string, conds ...*holdfastv1.Condition) {
	t.Helper()
	do(t, p, &internalv1.ObserveConditions{Machines: []*internalv1.MachineConditions{
		{MachineId: "gone"}, {MachineId: machine, Conditions: conds}}})
}

func TestObserveConditions(t *testing.T) {
	p := machineIn(t, ready)
	at := func(minutes int) *timestamppb.Timestamp {
		return timestamppb.New(time.Date(2026, 1, 29, 16, minutes, 0, 0, time.UTC))
	}
	seen := func(status bool, reason string, minutes int) *holdfastv1.Condition {
		return &holdfastv1.Condition{Type: "Reachable", Status: status, Reason: reason, ObservedAt: at(minutes), LastTransition: at(59)}
	}
	steps := []struct {
		name    string
		seen    *holdfastv1.Condition
		want    *holdfastv1.Condition // last_transition is filled in below
		moved   bool                  // last_transition becomes the time of the command
		history int                   // entries about conditions so far
	}{
		{"first seen, false", seen(false, "Timeout", 1), seen(false, "Timeout", 1), true, 0},
		{"again, with another reason", seen(false, "Refused", 2), seen(false, "Refused", 2), false, 0},
		{"now true", seen(true, "PingOK", 3), seen(true, "PingOK", 3), true, 1},
		{"older than what is known", seen(false, "Timeout", 2), seen(true, "PingOK", 3), false, 1},
		{"without a time, so older", &holdfastv1.Condition{Type: "Reachable"}, seen(true, "PingOK", 3), false, 1},
		{"at the same time", seen(false, "Flaky", 3), seen(false, "Flaky", 3), true, 2},
		{"the same", seen(false, "Flaky", 4), seen(false, "Flaky", 4), false, 2},
	}
	var last *timestamppb.Timestamp
	for _, s := range steps {
		observe(t, p, "m", s.seen)
		if s.moved {
			last = p.View().Meta().GetNow()
		}
		s.want.LastTransition = last
		same(t, s.name, s.want, cond(getMachine(t, p, "m"), "Reachable"))
		n := 0
		for e := range p.View().History("m", 0) {
			if e.GetFacet() == "condition" {
				n++
			}
		}
		if n != s.history {
			t.Errorf("%s: got %d history entries, want %d", s.name, n, s.history)
		}
	}
	// Conditions are kept in order, whatever the order in which they are seen.
	observe(t, p, "m", &holdfastv1.Condition{Type: "Drained", Status: true}, &holdfastv1.Condition{Type: "BMCReachable"}, &holdfastv1.Condition{Type: "Zzz"})
	var got []string
	for _, c := range getMachine(t, p, "m").GetStatus().GetConditions() {
		got = append(got, c.GetType())
		if c.GetObservedAt() == nil || c.GetLastTransition() == nil {
			t.Errorf("%s has no times: %v", c.GetType(), c)
		}
	}
	same(t, "order", []string{"BMCReachable", "Drained", "Reachable", "Zzz"}, got)
}

// TestObservationsOfNobody: an observation that says nothing new about anybody changes nothing.
func TestObservationsOfNobody(t *testing.T) {
	p := machineIn(t, ready)
	before := dump(t, p)
	observe(t, p, "m")
	observe(t, p, "nobody", &holdfastv1.Condition{Type: "Reachable", Status: true})
	observe(t, p, "m", &holdfastv1.Condition{Status: true})
	if diff := before.Diff(dump(t, p)); diff != "" {
		t.Errorf("changed:\n%s", diff)
	}
}

// TestInterventionIsNotObserved: runs and operators say whether a person is needed. A failed install
// without that would contradict itself.
func TestInterventionIsNotObserved(t *testing.T) {
	p := machineIn(t, ready)
	plan(t, p, "plan/x", "repave")
	start(t, p, "m", "request-1", "REPAVE", "plan/x")
	finish(t, p, "run-request-1", failed)
	want := getMachine(t, p, "m")
	if want.GetStatus().GetNodeState() != holdfastv1.Node_INSTALL_FAILED {
		t.Fatalf("got %v, want INSTALL_FAILED", want.GetStatus())
	}
	observe(t, p, "m", &holdfastv1.Condition{Type: "NeedsIntervention", Reason: "LooksFine", ObservedAt: timestamppb.New(p.Now.Add(time.Hour))})
	same(t, "machine", want, getMachine(t, p, "m"))
}

// TestInClusterIsTruth: what is seen of the cluster shows in the effective state, and not in the phase.
func TestInClusterIsTruth(t *testing.T) {
	p := machineIn(t, ready)
	for _, in := range []bool{true, false} {
		observe(t, p, "m", &holdfastv1.Condition{Type: "InCustomerCluster", Status: in, ObservedAt: timestamppb.New(p.Now)})
		want := holdfastv1.EffectiveState_READY
		if in {
			want = holdfastv1.EffectiveState_IN_SERVICE
		}
		if s := getMachine(t, p, "m").GetStatus(); s.GetPhase() != ready || s.GetEffectiveState() != want {
			t.Errorf("in the cluster %v: got %s, effective %s, want READY, effective %s", in, s.GetPhase(), s.GetEffectiveState(), want)
		}
	}
}
