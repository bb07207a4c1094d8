package executor

import (
	"testing"
	"time"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
	"github.com/holdfast-metal/holdfast/providers"
	"github.com/holdfast-metal/holdfast/providers/fake"
)

// A machine that is as it was when there was nothing to do is not read again. After a change it is,
// and as long as something of it is good for a time only.
func TestSettledMachinesAreNotRead(t *testing.T) {
	l := newLab(t, fake.Config{})
	l.set = providers.SetOf(map[string]providers.Provider{"dc": &counted{}})
	l.epoch = 1
	l.must(&internalv1.Command{Op: &internalv1.Command_LeaderEstablished{LeaderEstablished: &internalv1.LeaderEstablished{PeerId: "n1", Term: 1}}})
	l.fleetOf("none", 1)
	o := newLookout(t.Context(), NewReconciler(ReconcilerConfig{}, l, l.fsm, l.set), 1)
	e := &entry{id: "none-00000"}
	var news *internalv1.MachineConditions
	observe := func(m *internalv1.MachineConditions) {
		l.must(&internalv1.Command{FeatureLevel: 1, Epoch: 1, Op: &internalv1.Command_ObserveConditions{
			ObserveConditions: &internalv1.ObserveConditions{Machines: []*internalv1.MachineConditions{m}}}})
	}
	degraded := func(until time.Time) func() {
		c := &holdfastv1.Condition{Type: condDegraded, Reason: "HealthOK", ObservedAt: at(time.Now())}
		if !until.IsZero() {
			c.FreshUntil = at(until)
		}
		return func() {
			observe(&internalv1.MachineConditions{MachineId: e.id, Conditions: []*holdfastv1.Condition{c}})
		}
	}
	for _, step := range []struct {
		name       string
		before     func()
		read, told bool
	}{
		{"first look", nil, true, true},
		{"it has not come on record", nil, true, true},
		{"it has", func() { observe(news) }, true, false},
		{"as before", nil, false, false},
		{"still", nil, false, false},
		{"something else has changed", degraded(time.Time{}), true, false},
		{"as before", nil, false, false},
		{"something is good for an hour", degraded(time.Now().Add(time.Hour)), true, false},
		{"it has to be watched", nil, true, false},
	} {
		if step.before != nil {
			step.before()
		}
		m := o.read(e)
		told := false
		if m != nil {
			o.place(t.Context(), e, m)
			select {
			case news = <-o.news:
				told = true
			default:
			}
		}
		if m != nil != step.read || told != step.told {
			t.Errorf("%s: read %v, told %v; want %v, %v", step.name, m != nil, told, step.read, step.told)
		}
	}
}

// Of a machine that nobody looks at and whose agent has just registered there is nothing to say,
// until the agent is heard or lost.
func TestAgentsThatHaveJustRegistered(t *testing.T) {
	set := providers.SetOf(map[string]providers.Provider{"dc": &counted{}})
	o := newLookout(t.Context(), NewReconciler(ReconcilerConfig{}, nil, nil, set), 1)
	for state, want := range map[holdfastv1.Agent_State]bool{
		holdfastv1.Agent_AGENT_STATE_UNSPECIFIED: true, holdfastv1.Agent_PENDING: true, holdfastv1.Agent_REGISTERED: false, holdfastv1.Agent_READY: true, holdfastv1.Agent_EXPIRED: true,
	} {
		m := &holdfastv1.Machine{MachineId: "m-1", Spec: &holdfastv1.MachineSpec{Provider: "none"}, Status: &holdfastv1.MachineStatus{AgentState: state}}
		if got := o.witness(t.Context(), m, "NoProvider"); got != want {
			t.Errorf("%v: told %v, want %v", state, got, want)
		}
		if want {
			<-o.news
		}
	}
	m := &holdfastv1.Machine{MachineId: "m-1", Spec: &holdfastv1.MachineSpec{Provider: "none"}, Status: &holdfastv1.MachineStatus{
		AgentState: holdfastv1.Agent_REGISTERED, Conditions: []*holdfastv1.Condition{{Type: condReachable, Status: true, Reason: "AgentKeepalive"}}}}
	if !o.witness(t.Context(), m, "NoProvider") {
		t.Error("registered again: what was said of it stands, want it corrected")
	}
}
