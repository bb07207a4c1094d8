package cli

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/holdfast-metal/holdfast/internal/cli/app"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

func troubledMachine(id string, issues ...*holdfastv1.Issue) *holdfastv1.Machine {
	return &holdfastv1.Machine{MachineId: id, Spec: &holdfastv1.MachineSpec{Rack: "r7"},
		Status: &holdfastv1.MachineStatus{Phase: holdfastv1.MachineStatus_READY,
			EffectiveState: holdfastv1.EffectiveState_READY, Power: holdfastv1.PowerState_ON, Issues: issues}}
}

func issue(urgency holdfastv1.Issue_Urgency, kind, reason string, since *timestamppb.Timestamp) *holdfastv1.Issue {
	return &holdfastv1.Issue{Urgency: urgency, Type: kind, Reason: reason, Since: since}
}

func TestMachineIssues(t *testing.T) {
	off := troubledMachine("m-8", issue(holdfastv1.Issue_DOWN, "PoweredOff", "NotByRun", ago(2*time.Hour)))
	off.Status.Power = holdfastv1.PowerState_OFF
	off.Status.Conditions = []*holdfastv1.Condition{{
		Type: "PoweredOn", Reason: "NotByRun", LastTransition: ago(2 * time.Hour),
	}}
	f := startCluster(t, &fakeCluster{machines: []*holdfastv1.Machine{
		troubledMachine("m-2", issue(holdfastv1.Issue_DOWN, "Unreachable", "NoAnswer", ago(time.Hour)),
			issue(holdfastv1.Issue_MINOR, "Degraded", "FanFailed", ago(3*time.Hour))),
		troubledMachine("m-3", issue(holdfastv1.Issue_MINOR, "BMCUnreachable", "AuthFailed", ago(48*time.Hour))),
		troubledMachine("m-4", issue(holdfastv1.Issue_URGENT, "NeedsIntervention", "StepFailed", ago(5*time.Minute))),
		troubledMachine("m-10", issue(holdfastv1.Issue_URGENT, "NeedsIntervention", "StepFailed", ago(5*time.Minute))),
		troubledMachine("m-7", issue(holdfastv1.Issue_URGENT, "InstallFailed", "no disk", ago(time.Minute))),
		off,
	}})
	var c command
	c.wantCode(t, c.run(t, f, "machine", "issues", "--filter", "rack = r7"), app.ExitOK)
	golden(t, "machine_issues.golden", c.out.String())
	asked := asked[*holdfastv1.ListMachinesRequest](f)
	if diff := cmp.Diff("(rack = r7) AND "+troubled, asked[len(asked)-1].GetFilter()); diff != "" {
		t.Errorf("filter (-want +got):\n%s", diff)
	}

	c = command{}
	c.wantCode(t, c.run(t, f, "machine", "issues", "--limit", "2", "-o", "name"), app.ExitOK)
	if got, want := c.out.String(), "m-4\nm-10\n"; got != want {
		t.Errorf("two most urgent: got %q, want %q", got, want)
	}
	wantIn(t, "stderr", c.err.String(), "only the first 2 are shown")
}

func TestNoIssues(t *testing.T) {
	f := startCluster(t, &fakeCluster{})
	var c command
	c.wantCode(t, c.run(t, f, "machine", "issues", "--no-headers"), app.ExitOK)
	if got := c.out.String(); got != "" {
		t.Errorf("got output %q, want none", got)
	}
	wantIn(t, "stderr", c.err.String(), "no machine has an issue")
}
