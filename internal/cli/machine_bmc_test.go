package cli_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/holdfast-metal/holdfast/internal/cli/app"
	"github.com/holdfast-metal/holdfast/internal/cli/clitest"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// Each verb of one machine starts a run of a built-in plan.
func TestCareVerbsAreRuns(t *testing.T) {
	for args, want := range map[string]*holdfastv1.StartRunRequest{
		"identify m-123": {PlanId: "plan/identify-on"},
		"identify m-123 --for 5m": {PlanId: "plan/identify-on",
			Params: map[string]string{"for": "5m0s"}},
		"identify m-123 --off": {PlanId: "plan/identify-off"},
		"sel m-123":            {PlanId: "plan/sel"},
		"events m-123 --clear": {PlanId: "plan/sel-clear"},
		"sel m-123 --log IML":  {PlanId: "plan/sel", Params: map[string]string{"log": "IML"}},
		"sel m-123 --clear --log PlatformLog": {PlanId: "plan/sel-clear",
			Params: map[string]string{"log": "PlatformLog"}},
		"bmc-reset m-123": {PlanId: "plan/bmc-reset"},
		"media insert m-123 https://images.example/x": {PlanId: "plan/media-insert",
			Params: map[string]string{"url": "https://images.example/x"}},
		"media eject m-123":                        {PlanId: "plan/media-eject"},
		"inventory m-123":                          {PlanId: "plan/inventory"},
		"inventory m-123 --request-id ticket-4711": {PlanId: "plan/inventory", RequestId: "ticket-4711"},
		"power off m-123 --force": {PlanId: "plan/power-off",
			Params: map[string]string{"force": "true"}},
		"boot-device m-123 virtual-media --persistent": {PlanId: "plan/boot-virtual-media",
			Params: map[string]string{"persistent": "true"}},
	} {
		f := clitest.Start(t, clitest.Fixture())
		var c clitest.Command
		c.WantCode(t, c.Run(t, f, append([]string{"machine"}, strings.Fields(args+" --detach -o name")...)...), app.ExitOK)
		all := clitest.Asked[*holdfastv1.StartRunRequest](f)
		if len(all) != 1 {
			t.Fatalf("%s: got %d started runs, want 1", args, len(all))
		}
		got := all[0]
		if want.MachineId = "m-123"; want.GetRequestId() == "" {
			want.RequestId = got.GetRequestId()
		}
		if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" || got.GetRequestId() == "" {
			t.Errorf("%s (-want +got):\n%s", args, diff)
		}
	}
}

func TestCareVerbsUsageErrors(t *testing.T) {
	for args, want := range map[string]string{
		"identify m-1 --for 2h":       "1h at most",
		"identify m-1 --off --for 5m": "either --for or --off",
		"media insert m-1":            "URL is missing",
		"console":                     "MACHINE is missing",
	} {
		var c clitest.Command
		c.WantCode(t, c.Run(t, nil, append([]string{"machine"}, strings.Fields(args)...)...), app.ExitUsage)
		clitest.WantIn(t, args, c.Err.String(), want)
	}
}
