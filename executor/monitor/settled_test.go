package monitor

import (
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
	"github.com/holdfast-metal/holdfast/providers"
	"github.com/holdfast-metal/holdfast/providers/fake"
)

// A machine that needs no action is not read again until it changes or a condition of it can
// expire.
func TestSettledMachinesAreNotRead(t *testing.T) {
	l := newLab(t, fake.Config{})
	l.Set = providers.SetOf(map[string]providers.Provider{"dc": &counted{}})
	l.Establish()
	l.fleetOf("none", 1)
	mon := newTerm(t.Context(), New(Config{}, l, l.FSM, l.Set), 1)
	e := &pollEntry{id: "none-00000"}
	var changed *internalv1.MachineConditions
	observe := func(m *internalv1.MachineConditions) {
		l.Must(&internalv1.Command{FeatureLevel: 1, Epoch: 1, Op: &internalv1.Command_ObserveConditions{
			ObserveConditions: &internalv1.ObserveConditions{Machines: []*internalv1.MachineConditions{m}}}})
	}
	degraded := func(until time.Time) func() {
		c := &holdfastv1.Condition{Type: condDegraded, Reason: "HealthOK", ObservedAt: timestamppb.New(time.Now())}
		if !until.IsZero() {
			c.FreshUntil = timestamppb.New(until)
		}
		return func() {
			observe(&internalv1.MachineConditions{MachineId: e.id, Conditions: []*holdfastv1.Condition{c}})
		}
	}
	for _, step := range []struct {
		name           string
		before         func()
		read, reported bool
	}{
		{"first poll", nil, true, true},
		{"not recorded yet", nil, true, true},
		{"recorded", func() { observe(changed) }, true, false},
		{"as before", nil, false, false},
		{"still", nil, false, false},
		{"something else has changed", degraded(time.Time{}), true, false},
		{"as before", nil, false, false},
		{"condition valid for an hour", degraded(time.Now().Add(time.Hour)), true, false},
		{"expired condition", nil, true, false},
	} {
		if step.before != nil {
			step.before()
		}
		m := mon.read(e)
		reported := false
		if m != nil {
			mon.schedule(t.Context(), e, m)
			select {
			case changed = <-mon.changes:
				reported = true
			default:
			}
		}
		if m != nil != step.read || reported != step.reported {
			t.Errorf("%s: got read %v, reported %v, want %v, %v", step.name, m != nil, reported, step.read, step.reported)
		}
	}
}

// An unobserved machine whose agent has just registered has nothing to report until the first
// heartbeat or the loss of the agent.
func TestNewlyRegisteredAgents(t *testing.T) {
	set := providers.SetOf(map[string]providers.Provider{"dc": &counted{}})
	mon := newTerm(t.Context(), New(Config{}, nil, nil, set), 1)
	for state, want := range map[holdfastv1.Agent_State]bool{
		holdfastv1.Agent_AGENT_STATE_UNSPECIFIED: true, holdfastv1.Agent_PENDING: true, holdfastv1.Agent_REGISTERED: false,
		holdfastv1.Agent_READY: true, holdfastv1.Agent_EXPIRED: true,
	} {
		m := &holdfastv1.Machine{MachineId: "m-1", Spec: &holdfastv1.MachineSpec{Provider: "none"},
			Status: &holdfastv1.MachineStatus{AgentState: state}}
		if got := mon.reportUnobserved(t.Context(), m, "NoProvider"); got != want {
			t.Errorf("%v: got reported %v, want %v", state, got, want)
		}
		if want {
			<-mon.changes
		}
	}
	m := &holdfastv1.Machine{MachineId: "m-1", Spec: &holdfastv1.MachineSpec{Provider: "none"},
		Status: &holdfastv1.MachineStatus{
			AgentState: holdfastv1.Agent_REGISTERED, Conditions: []*holdfastv1.Condition{{Type: condReachable, Status: true,
				Reason: "AgentKeepalive"}}}}
	if !mon.reportUnobserved(t.Context(), m, "NoProvider") {
		t.Error("registered again: got the old report, want it corrected")
	}
}
