package monitor

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-metal/holdfast/fsm"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
	"github.com/holdfast-metal/holdfast/providers"
	"github.com/holdfast-metal/holdfast/providers/fake"
)

// The power of a machine follows its BMC, and its reason names the run that has changed it.
func TestPowerFollowsTheMachine(t *testing.T) {
	t.Parallel()
	l := newLab(t, fake.Config{})
	l.Machine("m-1")
	l.lead(quick())
	l.reconcile(Config{Interval: 5 * time.Millisecond})
	first := l.condition("m-1", "PoweredOn", true)
	run := l.Ended(l.Start("m-1", "", "plan/power-off", nil).GetRunId())
	if run.GetPhase() != holdfastv1.Run_SUCCEEDED {
		t.Fatalf("run: %v", run)
	}
	off := l.condition("m-1", "PoweredOn", false)
	if first.GetReason() != powerObserved || off.GetReason() != powerByRun ||
		!strings.HasPrefix(off.GetMessage(), run.GetRunId()) {
		t.Errorf("got %v and then %v, want Observed, and then ByRun with the run", first, off)
	}
	l.Until(func(v *fsm.View) bool {
		m, _ := v.Machine("m-1")
		return m.GetStatus().GetPower() == holdfastv1.PowerState_OFF &&
			!m.GetStatus().GetPowerObservedAt().AsTime().Before(run.GetFinishedAt().AsTime())
	})
}

// A power that stays the same is not committed by polls; one that changes is, once.
func TestPowerIsCommittedWhenItChanges(t *testing.T) {
	l := newLab(t, fake.Config{})
	facts := providers.Facts{Reachable: true, ReachableReason: "PingOK", BMCReachable: true, BMCReason: "RedfishOK"}
	l.Set = providers.SetOf(map[string]providers.Provider{"fake": &counted{
		answer: func(context.Context, providers.Machine) (providers.Facts, error) { return facts, nil }}})
	l.Establish()
	l.Machine("m-1")
	mon := newTerm(t.Context(), New(Config{}, l, l.FSM, l.Set), 1)
	q := newPollQueue(1, newLimiter(0, nil, func(time.Duration) {}), time.Minute, 1, time.Now())
	for _, step := range []struct {
		power  providers.PowerState
		deaf   bool
		want   string // the reported condition, or none
		reason string
	}{
		{providers.PowerOn, false, "PoweredOn=true", powerObserved},
		{providers.PowerOn, false, "", ""},
		{providers.PowerOff, false, "PoweredOn=false", powerNotByRun},
		{providers.PowerOff, false, "", ""},
		{providers.PowerUnknown, true, "", ""},
		{providers.PowerOff, false, "", ""},
		{providers.PowerUnknown, false, "PoweredOn=unknown", "NotShown"},
		{providers.PowerOff, false, "PoweredOn=false", powerObserved},
	} {
		facts.Power, facts.BMCReachable = step.power, !step.deaf
		m, _ := l.FSM.View().Machine("m-1")
		mon.reach(t.Context(), q, &pollEntry{id: "m-1"}, m)
		var got, reason string
		select {
		case changed := <-mon.changes:
			for _, c := range changed.GetConditions() {
				if c.GetType() == condPoweredOn {
					got, reason = c.GetType()+"="+fsm.ConditionStatus(c), c.GetReason()
				}
			}
			l.Must(&internalv1.Command{FeatureLevel: 1, Epoch: 1, Op: &internalv1.Command_ObserveConditions{
				ObserveConditions: &internalv1.ObserveConditions{Machines: []*internalv1.MachineConditions{changed}}}})
		default:
		}
		if got != step.want || reason != step.reason {
			t.Errorf("power %q, deaf %v: got %q (%s), want %q (%s)", step.power, step.deaf, got, reason, step.want, step.reason)
		}
	}
}
