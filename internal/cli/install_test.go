package cli_test

import (
	"strings"
	"testing"

	"github.com/holdfast-metal/holdfast/internal/cli/app"
	"github.com/holdfast-metal/holdfast/internal/cli/clitest"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

func TestInstalls(t *testing.T) {
	for name, tt := range map[string]struct {
		args []string
		code int
		out  []string
		none string
	}{
		"open": {[]string{"install", "list"}, app.ExitOK, []string{"m-123", "writing", "40 %", "debian-13", "run-789"},
			"m-124"},
		"all": {[]string{"installs", "ls", "--all"}, app.ExitOK, []string{"m-123", "m-124", "complete (over)",
			"(wipe only)"}, "COMPLETE"},
		"get": {[]string{"install", "get", "m-9"}, app.ExitOK, []string{"writing", "opened", "booted-ipxe", "2m0s"},
			"booted-disk"},
		"watched": {[]string{"install", "watch", "m-8", "--interval", "1ms"}, app.ExitOK,
			[]string{"m-8  writing  40 %", "m-8  booted-disk  100 %"}, "failed"},
		"fails": {[]string{"install", "watch", "m-bad", "--interval", "1ms"}, app.ExitRunFailed,
			[]string{"m-bad  failed  40 %  2 disks qualify"}, "booted-disk"},
		"never": {[]string{"install", "watch", "m-8", "--interval", "0s"}, app.ExitUsage, nil, "m-8"},
	} {
		t.Run(name, func(t *testing.T) {
			f, c := clitest.Start(t, clitest.Fixture()), clitest.Command{}
			c.WantCode(t, c.Run(t, f, tt.args...), tt.code)
			clitest.WantIn(t, "stdout", c.Out.String(), tt.out...)
			if strings.Contains(c.Out.String(), tt.none) {
				t.Errorf("got %q in stdout:\n%s", tt.none, c.Out.String())
			}
		})
	}
}

func TestPlanProbe(t *testing.T) {
	f := clitest.Start(t, clitest.Fixture())
	c := clitest.Command{In: "plan_id: p\nsteps: [{name: a, power: {action: \"on\"}}]\n"}
	c.WantCode(t, c.Run(t, f, "plan", "validate", "-", "--dry-run", "m-123"), app.ExitOK)
	clitest.WantIn(t, "stdout", c.Out.String(), "repave-os", "ok", "3 of 3 peers")
	clitest.WantIn(t, "stderr", c.Err.String(), "nothing was changed")
	c = clitest.Command{}
	c.WantCode(t, c.Run(t, f, "plan", "validate", "--plan", "plan/x", "--dry-run", "m-123", "--param", "image=none"),
		app.ExitConflict)
	clitest.WantIn(t, "stdout", c.Out.String(), "FAILS", `there is no image "none"`)
	got := clitest.Asked[*holdfastv1.ProbePlanRequest](f)
	if len(got) != 2 || len(got[0].GetPlan().GetSteps()) != 1 || got[0].GetMachineId() != "m-123" ||
		got[1].GetPlanId() != "plan/x" {
		t.Errorf("got request %v", got)
	}
	for _, args := range [][]string{{"plan", "validate", "--plan", "x"},
		{"plan", "validate", "f", "--plan", "x", "--dry-run", "m"}, {"plan", "validate", "--dry-run", "m"}} {
		c = clitest.Command{}
		c.WantCode(t, c.Run(t, f, args...), app.ExitUsage)
	}
}
