package lifecycle

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

func TestIssues(t *testing.T) {
	type cond = holdfastv1.Condition
	type machine = holdfastv1.Machine
	type status = holdfastv1.MachineStatus
	bmc, in := &cond{Type: BMCReachable, Status: true}, &cond{Type: InCluster, Status: true}
	off, mute := &cond{Type: PoweredOn, Reason: "Observed"}, &cond{Type: Reachable, Reason: "PoweredOff"}
	degraded := &cond{Type: Degraded, Status: true, Message: "fan 3"}
	needs := &cond{Type: NeedsIntervention, Status: true, Reason: "StepFailed"}
	inService := func(c ...*cond) *machine {
		return &machine{Status: &status{Phase: holdfastv1.MachineStatus_IN_SERVICE, Conditions: c}}
	}
	ready := func(c ...*cond) *machine {
		return &machine{Status: &status{Phase: holdfastv1.MachineStatus_READY, Conditions: c}}
	}
	for name, tt := range map[string]struct {
		m    *machine
		want []string
	}{
		"well":                    {inService(bmc, in, &cond{Type: Reachable, Status: true}), nil},
		"off and in service":      {inService(bmc, in, off, mute), []string{"DOWN PoweredOff Observed"}},
		"off and free":            {ready(bmc, off, mute), nil},
		"shown as in service":     {ready(bmc, in, mute), []string{"DOWN Unreachable PoweredOff"}},
		"power unknown":           {inService(in, off, mute), []string{"DOWN Unreachable PoweredOff"}},
		"not in its cluster":      {inService(bmc, &cond{Type: InCluster}), []string{"DOWN NotInCluster "}},
		"unknown is not an issue": {inService(bmc, in, &cond{Type: Reachable, Unknown: true}), nil},
		"BMC polls fail": {ready(&cond{Type: BMCReachable, Status: true, Unknown: true, Reason: "ProviderTimeout"}),
			[]string{"MINOR BMCUnknown ProviderTimeout"}},
		"no poll for a while": {ready(&cond{Type: BMCReachable, Status: true, Unknown: true, Reason: Stale}), nil},
		"no poll since the BMC was silent": {ready(&cond{Type: BMCReachable, Unknown: true, Reason: Stale}),
			[]string{"MINOR BMCUnknown Stale"}},
		"a shared MAC address": {ready(&cond{Type: IdentityConflict, Status: true, Reason: "OtherSerial", Message: "S2"}),
			[]string{"MINOR IdentityConflict S2"}},
		"no BMC": {ready(&cond{Type: BMCReachable, Unknown: true, Reason: "NoBMC"}), nil},
		"BMC": {ready(&cond{Type: BMCReachable, Reason: "Timeout"}),
			[]string{"MINOR BMCUnreachable Timeout"}},
		"the most urgent first": {ready(bmc, degraded, needs),
			[]string{"URGENT NeedsIntervention StepFailed", "MINOR Degraded fan 3"}},
		"install failed": {&machine{Node: &holdfastv1.NodeRecord{LastInstallError: "no disk"},
			Status: &status{NodeState: holdfastv1.Node_INSTALL_FAILED}}, []string{"URGENT InstallFailed no disk"}},
		"silent agent": {&machine{Status: &status{AgentState: holdfastv1.Agent_EXPIRED}}, []string{"DOWN AgentExpired "}},
		"retired":      {&machine{Status: &status{Phase: holdfastv1.MachineStatus_RETIRED, Conditions: []*cond{needs}}}, nil},
	} {
		s := Derive(tt.m, nil).GetStatus()
		var got []string
		for _, i := range s.GetIssues() {
			got = append(got, i.GetUrgency().String()+" "+i.GetType()+" "+i.GetReason())
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if s.GetNeedsAttention() != (len(tt.want) > 0) {
			t.Errorf("%s: got needs attention %v", name, s.GetNeedsAttention())
		}
	}
}
