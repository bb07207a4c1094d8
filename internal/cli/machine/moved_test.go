package machine

import (
	"testing"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

func TestMovedSentence(t *testing.T) {
	const maintenance, ready, serving = holdfastv1.MachineStatus_MAINTENANCE, holdfastv1.MachineStatus_READY,
		holdfastv1.MachineStatus_IN_SERVICE
	m := func(
		phase holdfastv1.MachineStatus_Phase, state holdfastv1.EffectiveState_Value, run string,
	) *holdfastv1.Machine {
		return &holdfastv1.Machine{MachineId: "m-7", Status: &holdfastv1.MachineStatus{Phase: phase, EffectiveState: state,
			ActiveRunId: run}}
	}
	for _, tt := range []struct {
		after *holdfastv1.Machine
		want  string
	}{
		{m(ready, holdfastv1.EffectiveState_READY, ""), "m-7: phase MAINTENANCE -> READY"},
		{m(ready, holdfastv1.EffectiveState_IN_SERVICE, ""), "m-7: phase MAINTENANCE -> READY; shown as IN_SERVICE " +
			"because its node is still in cluster default"},
		{m(serving, holdfastv1.EffectiveState_READY, ""),
			"m-7: phase MAINTENANCE -> IN_SERVICE; shown as READY until its node is seen in a cluster"},
		{m(ready, holdfastv1.EffectiveState_PROVISIONING, "run-1"),
			"m-7: phase MAINTENANCE -> READY; shown as PROVISIONING because run-1 is active"},
		{m(maintenance, holdfastv1.EffectiveState_MAINTENANCE, ""), "m-7: phase MAINTENANCE, as before"},
	} {
		if got := movedSentence(m(maintenance, 0, ""), tt.after); got != tt.want {
			t.Errorf("got %q, want %q", got, tt.want)
		}
	}
}
