package cli

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

func TestIssuesOfOlderPeers(t *testing.T) {
	in := holdfastv1.EffectiveState_IN_SERVICE
	needs := &holdfastv1.Condition{Type: "NeedsIntervention", Status: true, Reason: "StepFailed"}
	lost := &holdfastv1.Condition{Type: "Reachable", Reason: "Timeout"}
	worn := &holdfastv1.Condition{Type: "Degraded", Status: true}
	for _, tt := range []struct {
		name   string
		status *holdfastv1.MachineStatus
		want   []string
	}{
		{"most urgent first", &holdfastv1.MachineStatus{EffectiveState: in,
			Conditions: []*holdfastv1.Condition{worn, lost, needs}}, []string{"NeedsIntervention", "Unreachable", "Degraded"}},
		{"free and unreachable", &holdfastv1.MachineStatus{Conditions: []*holdfastv1.Condition{lost}}, nil},
		{"retired", &holdfastv1.MachineStatus{Phase: holdfastv1.MachineStatus_RETIRED,
			Conditions: []*holdfastv1.Condition{needs}}, nil},
		{"a peer that reports issues", &holdfastv1.MachineStatus{Power: holdfastv1.PowerState_ON,
			Conditions: []*holdfastv1.Condition{needs}}, nil},
		{"unknown", &holdfastv1.MachineStatus{EffectiveState: in, Conditions: []*holdfastv1.Condition{
			{Type: "Reachable", Unknown: true}}}, nil},
	} {
		var got []string
		for _, i := range issuesOf(&holdfastv1.Machine{Status: tt.status}) {
			got = append(got, i.GetType())
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
}
