package cli_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/internal/cli/app"
	"github.com/holdfast-metal/holdfast/internal/cli/clitest"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// TestInServiceIsAsked checks that a command that interrupts a machine asks if the machine is in
// service, needs --yes without a terminal, and does not ask otherwise.
func TestInServiceIsAsked(t *testing.T) {
	for _, args := range []string{"machine power off m-9 --detach", "machine power cycle m-9 --detach --force",
		"run start m-9 --type REBOOT", "run retry run-9"} {
		for _, tt := range []struct {
			name    string
			phase   holdfastv1.MachineStatus_Phase
			flags   string
			in      string
			answers bool
			code    int
			changes bool
			stderr  string
		}{
			{"no terminal", holdfastv1.MachineStatus_IN_SERVICE, "", "", false, app.ExitUsage, false,
				"machine m-9, IN_SERVICE: plan/"},
			{"wrong answer", holdfastv1.MachineStatus_IN_SERVICE, "", "y\n", true, app.ExitError, false, `want "m-9"`},
			{"right answer", holdfastv1.MachineStatus_IN_SERVICE, "", "m-9\n", true, app.ExitOK, true, "interrupts the host"},
			{"--yes", holdfastv1.MachineStatus_IN_SERVICE, " --yes", "", false, app.ExitOK, true, ""},
			{"--dry-run", holdfastv1.MachineStatus_IN_SERVICE, " --dry-run", "", false, app.ExitOK, false,
				"dry run: 1 machine, 1 IN_SERVICE: plan/"},
			{"not in service", holdfastv1.MachineStatus_READY, "", "", false, app.ExitOK, true, ""},
		} {
			t.Run(args+"/"+tt.name, func(t *testing.T) {
				f := clitest.Fixture()
				f.Machines = append(f.Machines, &holdfastv1.Machine{MachineId: "m-9",
					Status: &holdfastv1.MachineStatus{Phase: tt.phase, EffectiveState: holdfastv1.EffectiveState_READY}})
				f.Runs = append(f.Runs, &holdfastv1.Run{RunId: "run-9", MachineId: "m-9", Type: "REBOOT", PlanId: "plan/reboot",
					Phase: holdfastv1.Run_FAILED, FinishedAt: clitest.Ago(0)})
				clitest.Start(t, f)
				c := clitest.Command{In: tt.in, Terminal: tt.answers, Answers: tt.answers}
				c.WantCode(t, c.Run(t, f, strings.Fields(args+tt.flags)...), tt.code)
				clitest.WantIn(t, "stderr", c.Err.String(), tt.stderr)
				if got := changes(f); (len(got) > 0) != tt.changes {
					t.Errorf("got changes %v, want some: %t", got, tt.changes)
				}
			})
		}
	}
}

// TestDrainVerbs checks that a drain of a machine in service asks, with its effect, that its end
// does not, and which runs they start.
func TestDrainVerbs(t *testing.T) {
	drain := func(params map[string]string) *holdfastv1.StartRunRequest {
		return &holdfastv1.StartRunRequest{MachineId: "m-9", PlanId: "plan/drain", Params: params}
	}
	for _, tt := range []struct {
		args   string
		code   int
		want   *holdfastv1.StartRunRequest
		stderr string
	}{
		{"drain m-9 --detach", app.ExitUsage, nil,
			"machine m-9, IN_SERVICE: plan/drain: cordons the node of the machine and evicts its pods"},
		{"drain m-9 --dry-run", app.ExitOK, nil, "dry run: 1 machine, 1 IN_SERVICE: plan/drain: cordons the node"},
		{"drain m-9 --detach --yes", app.ExitOK, drain(nil), ""},
		{"drain m-9 --detach --yes --force", app.ExitOK, drain(map[string]string{"force": "true"}), ""},
		{"uncordon m-9 --dry-run", app.ExitOK, nil, "plan/uncordon: lets the cluster place pods on the node"},
		{"uncordon m-9 --detach", app.ExitOK, &holdfastv1.StartRunRequest{MachineId: "m-9", PlanId: "plan/uncordon"}, ""},
	} {
		f := clitest.Fixture()
		f.Machines = append(f.Machines, &holdfastv1.Machine{MachineId: "m-9", Status: &holdfastv1.MachineStatus{
			Phase: holdfastv1.MachineStatus_IN_SERVICE, EffectiveState: holdfastv1.EffectiveState_IN_SERVICE}})
		for _, p := range fsm.DefaultPlans() {
			if p = proto.CloneOf(p); p.GetPlanId() == "plan/drain" || p.GetPlanId() == "plan/uncordon" {
				p.BuiltIn = true
				f.Plans = append(f.Plans, p)
			}
		}
		clitest.Start(t, f)
		var c clitest.Command
		c.WantCode(t, c.Run(t, f, append([]string{"machine"}, strings.Fields(tt.args)...)...), tt.code)
		clitest.WantIn(t, tt.args, c.Err.String(), tt.stderr)
		var got *holdfastv1.StartRunRequest
		for _, r := range clitest.Asked[*holdfastv1.StartRunRequest](f) {
			if !r.GetValidateOnly() {
				r.RequestId = ""
				got = r
			}
		}
		if diff := cmp.Diff(tt.want, got, protocmp.Transform(), protocmp.IgnoreEmptyMessages()); diff != "" {
			t.Errorf("machine %s (-want +got):\n%s", tt.args, diff)
		}
	}
}

// TestParams checks that an empty and a repeated parameter are refused before anything is sent.
func TestParams(t *testing.T) {
	for args, want := range map[string]string{
		"--param image=":                    "--param: image is empty: give a value, or leave the parameter out",
		"--param image=a --param image=b":   "--param: image is given twice: give it once",
		"--param image=a --param image=a":   "--param: image is given twice: give it once",
		"--param image":                     `--param: "image" is not key=value`,
		"--dry-run --param image= --yes":    "--param: image is empty",
		"--selector pool=gpu --param wipe=": "--param: wipe is empty",
	} {
		f := clitest.Start(t, clitest.Fixture())
		var c clitest.Command
		machine := "m-124 "
		if strings.Contains(args, "--selector") {
			machine = ""
		}
		c.WantCode(t, c.Run(t, f, strings.Fields("run start "+machine+"--type REPAVE "+args)...), app.ExitUsage)
		clitest.WantIn(t, args, c.Err.String(), want)
		if got := changes(f); len(got) > 0 {
			t.Errorf("%s: got changes %v, want none", args, got)
		}
	}
}
