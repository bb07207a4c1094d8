package cli_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"

	"github.com/holdfast-metal/holdfast/internal/cli/app"
	"github.com/holdfast-metal/holdfast/internal/cli/clitest"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// samplePlan is the plan of the document (bare-metal API §Examples).
const samplePlan = `{
  "plan_id": "plan-repave-ubuntu-2204-v1",
  "display_name": "Repave Ubuntu 22.04 + Join Cluster",
  "steps": [
    {"name": "set-netboot", "timeout_seconds": 60, "max_retries": 2, "netboot": {"mode": "PXE"}},
    {"name": "repave-os", "timeout_seconds": 1800, "max_retries": 1, "repave": {"image": "ubuntu-22.04"}},
    {"name": "reboot", "timeout_seconds": 300, "max_retries": 2, "reboot": {"mode": "bmc"}},
    {"name": "join-cluster", "timeout_seconds": 600, "max_retries": 1, "join": {"cluster_ref": "cluster-a"}},
    {"name": "verify", "timeout_seconds": 300, "max_retries": 0, "verify": {"cluster_ref": "cluster-a"}}
  ]
}`

func TestPlanApply(t *testing.T) {
	f := clitest.Start(t, clitest.Fixture())
	for _, tt := range []struct {
		args              []string
		replace, validate bool
		note              string
	}{
		{[]string{"plan", "apply", "-f", "-"}, false, false, ""},
		{[]string{"plan", "apply", "-f", "-", "--replace"}, true, false, ""},
		{[]string{"plan", "apply", "-f", "-", "--dry-run"}, false, true, "is valid; nothing was stored"},
		{[]string{"plan", "validate", "-f", "-"}, true, true, "is valid; nothing was stored"},
		{[]string{"plan", "validate", "-"}, true, true, "is valid; nothing was stored"},
	} {
		c := clitest.Command{In: samplePlan}
		c.WantCode(t, c.Run(t, f, append(tt.args, "-o", "name")...), app.ExitOK)
		if got, want := c.Out.String(), "plan-repave-ubuntu-2204-v1\n"; got != want {
			t.Errorf("%v: got output %q, want %q", tt.args, got, want)
		}
		clitest.WantIn(t, "stderr", c.Err.String(), tt.note)
		all := clitest.Asked[*holdfastv1.CreatePlanRequest](f)
		got := all[len(all)-1]
		if got.GetReplace() != tt.replace || got.GetValidateOnly() != tt.validate || len(got.GetPlan().GetSteps()) != 5 {
			t.Errorf("%v: got request %v, want replace %v, validate only %v, 5 steps", tt.args, got, tt.replace, tt.validate)
		}
	}
}

// TestPlanRelease checks that --max-active is sent as given, also if the server refuses it.
func TestPlanRelease(t *testing.T) {
	f := clitest.Start(t, clitest.Fixture())
	zero, bad := int32(0), int32(-1)
	for _, tt := range []struct {
		args string
		want *int32
	}{{"", nil}, {"--max-active=0", &zero}, {"--max-active=-1", &bad}} {
		var c clitest.Command
		c.WantCode(t, c.Run(t, f, append([]string{"plan", "release", "plan/reboot"}, strings.Fields(tt.args)...)...),
			app.ExitOK)
		all := clitest.Asked[*holdfastv1.ReleasePlanRequest](f)
		if diff := cmp.Diff(tt.want, all[len(all)-1].MaxActive); diff != "" {
			t.Errorf("%q (-want +got):\n%s", tt.args, diff)
		}
	}
	if help := helpOf(t, f, "plan", "release"); strings.Contains(help, "-1") {
		t.Errorf("the help shows a default that means nothing:\n%s", help)
	}
}

func TestPlanFileIsGivenOnce(t *testing.T) {
	for args, want := range map[string]string{"plan validate": "FILE is missing",
		"plan validate a -f b": "give FILE once", "plan apply": "FILE is missing"} {
		var c clitest.Command
		c.WantCode(t, c.Run(t, nil, strings.Fields(args)...), app.ExitUsage)
		clitest.WantIn(t, args, c.Err.String(), want)
	}
}

func TestPlanFileIsStrict(t *testing.T) {
	f := clitest.Start(t, clitest.Fixture())
	for _, tt := range []struct{ in, want string }{
		{"plan_id: p\nsteps:\n- name: a\n  reboot: {mode: bmc, forse: true}\n", `error: read plans: standard input:4: unknown key "forse" in "steps[0].reboot": did you mean force?`},
		{"plan_id: p\nsteps:\n- name: a\n  rebot: {}\n",
			`error: read plans: standard input:4: unknown key "rebot" in "steps[0]": did you mean reboot?`},
		{"plan_id: p\nsteps:\n- name: a\n  timeout_seconds: soon\n",
			`error: read plans: standard input:4: steps[0].timeout_seconds: "soon" is not a whole number`},
		{"plan_id: p\nsteps:\n- name: a\n  reboot: {}\n  ssh: {}\n", `error: read plans: standard input:5: "steps[0]" has "reboot" and "ssh": only one of them is allowed`},
	} {
		c := clitest.Command{In: tt.in}
		c.WantCode(t, c.Run(t, f, "plan", "apply", "-f", "-"), app.ExitUsage)
		if got := c.Err.String(); got != tt.want+"\n" {
			t.Errorf("got stderr %q, want %q", got, tt.want)
		}
	}
	if len(f.Requests) > 0 {
		t.Errorf("got %d requests, want 0", len(f.Requests))
	}
}

func TestPlanProblemsAreListed(t *testing.T) {
	f := clitest.Fixture()
	f.Refuse = clitest.Always(clitest.Refusal(t, codes.InvalidArgument, `plan "p" has 2 problems`, "steps[0].kind",
		"missing",
		"steps[1].name", `"a" is there twice`))
	clitest.Start(t, f)
	c := clitest.Command{In: "plan_id: p\nsteps: [{name: a}, {name: a}]\n"}
	c.WantCode(t, c.Run(t, f, "plan", "validate", "-f", "-"), app.ExitUsage)
	want := "error: validate plan p: plan \"p\" has 2 problems\n  steps[0].kind: missing\n  steps[1].name: \"a\" is " +
		"there twice\n"
	if got := c.Err.String(); got != want {
		t.Errorf("got stderr %q, want %q", got, want)
	}
}

func TestPlanDelete(t *testing.T) {
	f := clitest.Start(t, clitest.Fixture())
	var c clitest.Command
	c.WantCode(t, c.Run(t, f, "plan", "delete", "a", "b", "--yes"), app.ExitOK)
	if got := len(clitest.Asked[*holdfastv1.DeletePlanRequest](f)); got != 2 {
		t.Errorf("got %d deleted plans, want 2", got)
	}
	clitest.WantIn(t, "stderr", c.Err.String(), "deleted plan a", "deleted plan b")
}
