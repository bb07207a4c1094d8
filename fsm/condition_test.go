package fsm_test

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/holdfast-metal/holdfast/fsm"
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
	began := p.Now
	at := func(seconds int) *timestamppb.Timestamp {
		return timestamppb.New(began.Add(time.Duration(seconds-60) * time.Second))
	}
	seen := func(status bool, reason string, seconds int) *holdfastv1.Condition {
		return &holdfastv1.Condition{Type: "Reachable", Status: status, Reason: reason, ObservedAt: at(seconds),
			LastTransition: at(59)}
	}
	steps := []struct {
		name    string
		seen    *holdfastv1.Condition
		want    *holdfastv1.Condition // last_transition is set below
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
	// Conditions are sorted, whatever the order of the observations.
	observe(t, p, "m", &holdfastv1.Condition{Type: "Degraded", Status: true},
		&holdfastv1.Condition{Type: "BMCReachable"}, &holdfastv1.Condition{Type: "Zzz"})
	var got []string
	for _, c := range getMachine(t, p, "m").GetStatus().GetConditions() {
		got = append(got, c.GetType())
		if c.GetObservedAt() == nil || c.GetLastTransition() == nil {
			t.Errorf("%s has no times: %v", c.GetType(), c)
		}
	}
	same(t, "order", []string{"BMCReachable", "Degraded", "Reachable", "Zzz"}, got)
}

// TestObservationsOfUnknownMachine checks that an observation without a change, or of an unknown
// machine, changes nothing.
func TestObservationsOfUnknownMachine(t *testing.T) {
	p := machineIn(t, ready)
	before := dump(t, p)
	observe(t, p, "m")
	observe(t, p, "nobody", &holdfastv1.Condition{Type: "Reachable", Status: true})
	observe(t, p, "m", &holdfastv1.Condition{Status: true})
	if diff := before.Diff(dump(t, p)); diff != "" {
		t.Errorf("changed:\n%s", diff)
	}
}

// TestInterventionIsNotObserved checks that only runs and operators set NeedsIntervention. A
// failed install without it would contradict itself.
func TestInterventionIsNotObserved(t *testing.T) {
	p := machineIn(t, ready)
	plan(t, p, "plan/x", "repave")
	start(t, p, "m", "request-1", "REPAVE", "plan/x")
	finish(t, p, "run-request-1", failed)
	want := getMachine(t, p, "m")
	if want.GetStatus().GetNodeState() != holdfastv1.Node_INSTALL_FAILED {
		t.Fatalf("got %v, want INSTALL_FAILED", want.GetStatus())
	}
	observe(t, p, "m", &holdfastv1.Condition{Type: "NeedsIntervention", Reason: "LooksFine",
		ObservedAt: timestamppb.New(p.Now.Add(time.Hour))})
	same(t, "machine", want, getMachine(t, p, "m"))
}

// TestInClusterIsTruth checks that an observed cluster membership shows in the effective
// state, and not in the phase.
func TestInClusterIsTruth(t *testing.T) {
	p := machineIn(t, ready)
	for _, in := range []bool{true, false} {
		observe(t, p, "m", &holdfastv1.Condition{Type: "InCustomerCluster", Status: in, ObservedAt: timestamppb.New(p.Now)})
		want := holdfastv1.EffectiveState_READY
		if in {
			want = holdfastv1.EffectiveState_IN_SERVICE
		}
		if s := getMachine(t, p, "m").GetStatus(); s.GetPhase() != ready || s.GetEffectiveState() != want {
			t.Errorf("in the cluster %v: got %s, effective %s, want READY, effective %s", in, s.GetPhase(),
				s.GetEffectiveState(), want)
		}
	}
}

// conditionHistory returns the entries about conditions, oldest first.
func conditionHistory(p *fsmtest.Peer, machine string) []string {
	var lines []string
	for _, l := range history(p, machine) {
		if rest, ok := strings.CutPrefix(l, "condition: "); ok {
			lines = append(lines, rest)
		}
	}
	return lines
}

// A condition that cannot be observed becomes unknown, once, and keeps its last status. The
// machine's effective state must not flip because of a failed poll.
func TestUnknownKeepsLastValue(t *testing.T) {
	p := machineIn(t, ready)
	see := func(status, unknown bool, reason string) *holdfastv1.Condition {
		c := &holdfastv1.Condition{Type: "InCustomerCluster", Status: status, Unknown: unknown, Reason: reason,
			ObservedAt: timestamppb.New(p.Now)}
		if !unknown {
			c.FreshUntil = timestamppb.New(p.Now.Add(time.Hour))
		}
		observe(t, p, "m", c)
		return cond(getMachine(t, p, "m"), "InCustomerCluster")
	}
	moved := see(true, false, "NodeReady").GetLastTransition()
	c := see(false, true, "NoSecretsKey")
	since := c.GetUnknownSince()
	if !c.GetStatus() || !c.GetUnknown() || since == nil || c.GetFreshUntil() != nil ||
		!proto.Equal(c.GetLastTransition(), moved) {
		t.Errorf("got %v, want it unknown, since now, with the status and the transition that it had", c)
	}
	if s := getMachine(t, p, "m").GetStatus().GetEffectiveState(); s != holdfastv1.EffectiveState_IN_SERVICE {
		t.Errorf("effective state %s while it is unknown, want IN_SERVICE", s)
	}
	if c := see(false, true, "Timeout"); !proto.Equal(c.GetUnknownSince(), since) || c.GetReason() != "Timeout" {
		t.Errorf("unknown for another reason: got %v, want the same since", c)
	}
	if c := see(true, false, "NodeReady"); c.GetUnknown() || c.GetUnknownSince() != nil || c.GetFreshUntil() == nil {
		t.Errorf("seen again: got %v", c)
	}
	same(t, "history", []string{"InCustomerCluster=false -> InCustomerCluster=true (NodeReady)",
		"InCustomerCluster=true (NodeReady) -> InCustomerCluster=unknown (NoSecretsKey)",
		"InCustomerCluster=unknown (Timeout) -> InCustomerCluster=true (NodeReady)"}, conditionHistory(p, "m"))
	observe(t, p, "m", &holdfastv1.Condition{Type: "Reachable", Unknown: true, Reason: "NoProvider",
		ObservedAt: timestamppb.New(p.Now)})
	if got := conditionHistory(p, "m"); len(got) != 3 {
		t.Errorf("what was never known is unknown: %d entries in the history, want the 3 before", len(got))
	}
}

// An observation is valid for some time of the record's clock. After that it reads as
// unknown, on every peer, without a write.
func TestStaleConditionsAreReadAsUnknown(t *testing.T) {
	p := machineIn(t, ready)
	until := timestamppb.New(p.Now.Add(5 * time.Second))
	observe(t, p, "m", &holdfastv1.Condition{Type: "Reachable", Status: true, Reason: "PingOK",
		ObservedAt: timestamppb.New(p.Now), FreshUntil: until})
	read := func() *holdfastv1.Condition { return cond(getMachine(t, p, "m"), "Reachable") }
	if c := read(); c.GetUnknown() {
		t.Errorf("too early: %v", c)
	}
	for range 6 { // each command advances the clock by a second
		register(t, p, "other", ready)
	}
	c := read()
	if !c.GetUnknown() || !c.GetStatus() || c.GetReason() != fsm.Stale || !proto.Equal(c.GetUnknownSince(), until) ||
		!strings.Contains(c.GetMessage(), "true (PingOK)") {
		t.Errorf("got %v, want it stale since %v, and what it was", c, until.AsTime())
	}
	if got := conditionHistory(p, "m"); len(got) != 1 {
		t.Errorf("reading has written: %q", got)
	}
	// The leader records it once, for watchers and the history.
	c.ObservedAt = timestamppb.New(p.Now)
	observe(t, p, "m", c)
	if got := read(); got.GetReason() != fsm.Stale || !proto.Equal(got.GetUnknownSince(), until) {
		t.Errorf("on record: got %v", got)
	}
	if got := conditionHistory(p, "m"); len(got) != 2 || !strings.HasSuffix(got[1], "Reachable=unknown (Stale)") {
		t.Errorf("history: %q", got)
	}
}

// A drain is evidence of its step, even if the run fails after it.
func TestDrainedIsTheEvidenceOfSteps(t *testing.T) {
	steps := func(names ...string) *holdfastv1.Plan {
		pl := &holdfastv1.Plan{PlanId: "plan/x"}
		for _, n := range names {
			kind, name, named := strings.Cut(n, ":")
			s := fsmtest.Step(kind)
			if s.MaxRetries = proto.Int32(0); named {
				s.Name = name
			}
			pl.Steps = append(pl.Steps, s)
		}
		return pl
	}
	for name, tt := range map[string]struct {
		plan    *holdfastv1.Plan
		outcome holdfastv1.Attempt_Outcome // of the last step
		want    string
	}{
		"drained for RMA":         {steps("ssh:drain-check", "rma"), succeeded, "true Drained"},
		"fails after the drain":   {steps("ssh:drain-node", "reboot"), failed, "true Drained"},
		"cancel after the drain":  {steps("ssh:drain-node", "reboot"), canceled, "true Drained"},
		"the drain fails":         {steps("ssh:drain-node"), failed, "none"},
		"upgraded":                {steps("ssh:drain-node", "ssh:uncordon-node"), succeeded, "false Uncordoned"},
		"not uncordoned":          {steps("ssh:drain-node", "ssh:uncordon-node"), failed, "true Drained"},
		"joined anew":             {steps("ssh:drain-node", "repave", "join"), succeeded, "false Joined"},
		"another step altogether": {steps("reboot"), succeeded, "none"},
	} {
		t.Run(name, func(t *testing.T) {
			p := machineIn(t, inService)
			do(t, p, &internalv1.CreatePlan{Plan: tt.plan})
			start(t, p, "m", "request-1", "", "plan/x")
			finish(t, p, "run-request-1", tt.outcome)
			got := "none"
			if c := cond(getMachine(t, p, "m"), "Drained"); c != nil {
				got = fsm.ConditionStatus(c) + " " + c.GetReason()
			}
			if got != tt.want {
				t.Errorf("Drained: got %s, want %s", got, tt.want)
			}
			observe(t, p, "m", &holdfastv1.Condition{Type: "Drained", Status: true,
				ObservedAt: timestamppb.New(p.Now.Add(time.Hour))})
			if c := cond(getMachine(t, p, "m"), "Drained"); c.GetStatus() != strings.HasPrefix(tt.want, "true") {
				t.Errorf("a poll has changed it: %v", c)
			}
		})
	}
}
