package cli_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/holdfast-metal/holdfast/internal/cli/app"
	"github.com/holdfast-metal/holdfast/internal/cli/clitest"
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
	off := troubledMachine("m-8", issue(holdfastv1.Issue_DOWN, "PoweredOff", "NotByRun", clitest.Ago(2*time.Hour)))
	off.Status.Power = holdfastv1.PowerState_OFF
	off.Status.Conditions = []*holdfastv1.Condition{{
		Type: "PoweredOn", Reason: "NotByRun", LastTransition: clitest.Ago(2 * time.Hour),
	}}
	f := clitest.Start(t, &clitest.Cluster{Machines: []*holdfastv1.Machine{
		troubledMachine("m-2", issue(holdfastv1.Issue_DOWN, "Unreachable", "NoAnswer", clitest.Ago(time.Hour)),
			issue(holdfastv1.Issue_MINOR, "Degraded", "FanFailed", clitest.Ago(3*time.Hour))),
		troubledMachine("m-3", issue(holdfastv1.Issue_MINOR, "BMCUnreachable", "AuthFailed", clitest.Ago(48*time.Hour))),
		troubledMachine("m-4",
			issue(holdfastv1.Issue_URGENT, "NeedsIntervention", "StepFailed", clitest.Ago(5*time.Minute))),
		troubledMachine("m-10",
			issue(holdfastv1.Issue_URGENT, "NeedsIntervention", "StepFailed", clitest.Ago(5*time.Minute))),
		troubledMachine("m-7", issue(holdfastv1.Issue_URGENT, "InstallFailed", "no disk", clitest.Ago(time.Minute))),
		off,
	}})
	var c clitest.Command
	c.WantCode(t, c.Run(t, f, "machine", "issues", "--filter", "rack = r7"), app.ExitOK)
	clitest.Golden(t, "machine_issues.golden", c.Out.String())
	asked := clitest.Asked[*holdfastv1.ListMachinesRequest](f)
	if diff := cmp.Diff("(rack = r7) AND needs_attention = true", asked[len(asked)-1].GetFilter()); diff != "" {
		t.Errorf("filter (-want +got):\n%s", diff)
	}

	c = clitest.Command{}
	c.WantCode(t, c.Run(t, f, "machine", "issues", "--limit", "2", "-o", "name"), app.ExitOK)
	if got, want := c.Out.String(), "m-4\nm-10\n"; got != want {
		t.Errorf("two most urgent: got %q, want %q", got, want)
	}
	clitest.WantIn(t, "stderr", c.Err.String(), "only the first 2 are shown")
}

func TestNoIssues(t *testing.T) {
	f := clitest.Start(t, &clitest.Cluster{})
	var c clitest.Command
	c.WantCode(t, c.Run(t, f, "machine", "issues", "--no-headers"), app.ExitOK)
	if got := c.Out.String(); got != "" {
		t.Errorf("got output %q, want none", got)
	}
	clitest.WantIn(t, "stderr", c.Err.String(), "no machine has an issue")
}
