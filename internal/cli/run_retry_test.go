package cli_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/holdfast-metal/holdfast/internal/cli/app"
	"github.com/holdfast-metal/holdfast/internal/cli/clitest"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

func TestRunRetry(t *testing.T) {
	f := clitest.Fixture()
	f.Runs[1].Params = map[string]string{"image": "debian-13"}
	clitest.Start(t, f)
	var c clitest.Command
	c.WantCode(t, c.Run(t, f, "run", "retry", "run-788"), app.ExitOK)
	got := clitest.Asked[*holdfastv1.StartRunRequest](f)
	want := []*holdfastv1.StartRunRequest{{MachineId: "m-124", Type: "REBOOT",
		Params: map[string]string{"image": "debian-13"}}}
	if diff := cmp.Diff(want, got, protocmp.Transform(),
		protocmp.IgnoreFields(&holdfastv1.StartRunRequest{}, "request_id")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got[0].GetRequestId() == "" || got[0].GetRequestId() == f.Runs[1].GetRequestId() {
		t.Errorf("got request id %q, want a new one", got[0].GetRequestId())
	}
	c = clitest.Command{}
	c.WantCode(t, c.Run(t, f, "run", "retry", "run-788", "--request-id", "r-1"), app.ExitOK)
	if got := clitest.Asked[*holdfastv1.StartRunRequest](f)[1].GetRequestId(); got != "r-1" {
		t.Errorf("with --request-id: got request id %q, want r-1", got)
	}
	c = clitest.Command{}
	c.WantCode(t, c.Run(t, f, "run", "retry", "run-789"), app.ExitConflict)
	clitest.WantIn(t, "stderr", c.Err.String(), "it is still RUNNING: wait for its end, or cancel it")
}

func TestRunStartDryRun(t *testing.T) {
	for _, tt := range []struct {
		name string
		args []string
		want string // on standard error
	}{
		{"a machine", []string{"m-123", "--type", "reboot"},
			"dry run: 1 machine, 1 with an active run: plan/reboot: interrupts the host"},
		{"a wave", []string{"--selector", "pool = gpu", "--plan", "plan-repave-ubuntu-2204-v1"},
			"plan-repave-ubuntu-2204-v1: erases the disk and installs ubuntu-22.04"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := clitest.Fixture()
			f.Waves = &clitest.Waves{}
			clitest.Start(t, f)
			var c clitest.Command
			c.WantCode(t, c.Run(t, f, append([]string{"run", "start", "--dry-run"}, tt.args...)...), app.ExitOK)
			clitest.WantIn(t, "stderr", c.Err.String(), tt.want)
			clitest.WantIn(t, "stdout", c.Out.String(), "m-123")
			if got := changes(f); len(got) > 0 {
				t.Errorf("got changes %v, want none", got)
			}
		})
	}
}

func TestRunCancelSeveral(t *testing.T) {
	f := clitest.Start(t, clitest.Fixture())
	var c clitest.Command
	c.WantCode(t, c.Run(t, f, "run", "cancel", "run-788", "run-0", "run-789", "--reason", "wrong image",
		"--yes"), app.ExitNotFound)
	if n := len(clitest.Asked[*holdfastv1.CancelRunRequest](f)); n != 3 {
		t.Errorf("got %d cancels, want 3", n)
	}
	clitest.WantIn(t, "stdout", c.Out.String(), "run-788", "run-789")
	clitest.WantIn(t, "stderr", c.Err.String(), "cancel runs: 1 of 3 failed:", `run "run-0" not found`)

	c = clitest.Command{}
	c.WantCode(t, c.Run(t, f, "run", "cancel", "--filter", "plan_id = plan/reboot"), app.ExitUsage)
	c.WantCode(t, c.Run(t, f, "run", "cancel", "--filter", "plan_id = plan/reboot", "--dry-run"), app.ExitOK)
	if n := len(clitest.Asked[*holdfastv1.CancelRunRequest](f)); n != 3 {
		t.Errorf("got %d cancels without a confirmation, want none", n-3)
	}
	c.WantCode(t, c.Run(t, f, "run", "cancel", "--filter", "plan_id = plan/reboot", "--yes"), app.ExitOK)
	lists := clitest.Asked[*holdfastv1.ListRunsRequest](f)
	want := "(plan_id = plan/reboot) AND (phase = PENDING OR phase = RUNNING)"
	if got := lists[len(lists)-1].GetFilter(); got != want {
		t.Errorf("got filter %q, want %q", got, want)
	}
	for _, args := range [][]string{{"run", "cancel"}, {"run", "cancel", "run-1", "--filter", "x"}} {
		c = clitest.Command{}
		c.WantCode(t, c.Run(t, f, args...), app.ExitUsage)
	}
}
