package cli

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/types/known/timestamppb"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

func troubledMachine(
	id string, phase holdfastv1.MachineStatus_Phase, conditions ...*holdfastv1.Condition,
) *holdfastv1.Machine {
	return &holdfastv1.Machine{MachineId: id, Spec: &holdfastv1.MachineSpec{Rack: "r7"},
		Status: &holdfastv1.MachineStatus{Phase: phase, EffectiveState: holdfastv1.EffectiveState_READY,
			Conditions: conditions}}
}

func condition(kind string, status bool, reason string, since *timestamppb.Timestamp) *holdfastv1.Condition {
	return &holdfastv1.Condition{Type: kind, Status: status, Reason: reason, LastTransition: since}
}

func TestMachineIssues(t *testing.T) {
	const ready, serving = holdfastv1.MachineStatus_READY, holdfastv1.MachineStatus_IN_SERVICE
	failed := troubledMachine("m-7", ready)
	failed.Status.NodeState = holdfastv1.Node_INSTALL_FAILED
	failed.Node = &holdfastv1.NodeRecord{LastInstallError: "no disk", StateChangedAt: ago(time.Minute)}
	silent := troubledMachine("m-8", serving)
	silent.Status.AgentState, silent.Agent = holdfastv1.Agent_EXPIRED,
		&holdfastv1.AgentRecord{LastKeepalive: ago(2 * time.Hour)}
	f := startCluster(t, &fakeCluster{machines: []*holdfastv1.Machine{
		troubledMachine("m-1", ready, condition("Reachable", false, "NoAnswer", ago(time.Hour))),
		troubledMachine("m-2", serving, condition("Reachable", false, "NoAnswer", ago(time.Hour)),
			condition("Degraded", true, "FanFailed", ago(3*time.Hour))),
		troubledMachine("m-3", ready, condition("BMCReachable", false, "AuthFailed", ago(48*time.Hour))),
		troubledMachine("m-4", ready, condition("NeedsIntervention", true, "StepFailed", ago(5*time.Minute))),
		troubledMachine("m-10", ready, condition("NeedsIntervention", true, "StepFailed", ago(5*time.Minute))),
		troubledMachine("m-5", serving, &holdfastv1.Condition{Type: "Reachable", Unknown: true}),
		failed, silent,
	}})
	var c command
	c.wantCode(t, c.run(t, f, "machine", "issues", "--filter", "rack = r7"), ExitOK)
	golden(t, "machine_issues.golden", c.out.String())
	asked := asked[*holdfastv1.ListMachinesRequest](f)
	if diff := cmp.Diff("(rack = r7) AND "+troubled, asked[len(asked)-1].GetFilter()); diff != "" {
		t.Errorf("filter (-want +got):\n%s", diff)
	}

	c = command{}
	c.wantCode(t, c.run(t, f, "machine", "issues", "--limit", "2", "-o", "name"), ExitOK)
	if got, want := c.out.String(), "m-4\nm-10\n"; got != want {
		t.Errorf("two most urgent: got %q, want %q", got, want)
	}
	wantIn(t, "stderr", c.err.String(), "more than these 2")
}

func TestNoIssues(t *testing.T) {
	f := startCluster(t, &fakeCluster{machines: []*holdfastv1.Machine{{MachineId: "m-1"}}})
	var c command
	c.wantCode(t, c.run(t, f, "machine", "issues", "--no-headers"), ExitOK)
	if got := c.out.String(); got != "" {
		t.Errorf("got output %q, want none", got)
	}
	wantIn(t, "stderr", c.err.String(), "no machine has an issue")
}
