package cli_test

import (
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-metal/holdfast/internal/cli/app"
	"github.com/holdfast-metal/holdfast/internal/cli/clitest"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

func TestSuggestName(t *testing.T) {
	for _, tt := range []struct{ args, reason, msg, want string }{
		{"plan get reboot", "PLAN_NOT_FOUND", `plan "reboot" not found`,
			`error: get plan reboot: plan "reboot" not found: did you mean plan/reboot?: see: holdfast plan list` + "\n"},
		{"machine get n-123", "MACHINE_NOT_FOUND", `machine "n-123" not found`,
			`machine "n-123" not found: did you mean m-123?: see: holdfast machine list` + "\n"},
		{"machine get m-999", "MACHINE_NOT_FOUND", `machine "m-999" not found`,
			`error: get machine m-999: machine "m-999" not found: see: holdfast machine list` + "\n"},
		{"run get run-780", "RUN_NOT_FOUND", `run "run-780" not found`,
			`run "run-780" not found: see: holdfast run list` + "\n"},
	} {
		t.Run(tt.args, func(t *testing.T) {
			f := clitest.Fixture()
			f.Refuse = func(r proto.Message) error {
				switch r.(type) {
				case *holdfastv1.ListPlansRequest, *holdfastv1.ListMachinesRequest, *holdfastv1.ListRunsRequest:
					return nil
				}
				return clitest.WithReason(t, codes.NotFound, tt.msg, tt.reason)
			}
			clitest.Start(t, f)
			var c clitest.Command
			c.WantCode(t, c.Run(t, f, strings.Fields(tt.args)...), app.ExitNotFound)
			clitest.WantIn(t, "stderr", c.Err.String(), tt.want)
		})
	}
}

func TestSelectorIsFilter(t *testing.T) {
	f := clitest.Fixture()
	f.Waves = &clitest.Waves{}
	clitest.Start(t, f)
	var c clitest.Command
	c.WantCode(t, c.Run(t, f, "machine", "list", "--selector", "rack = r7"), app.ExitOK)
	if got := clitest.Asked[*holdfastv1.ListMachinesRequest](f)[0].GetFilter(); got != "rack = r7" {
		t.Errorf("got filter %q, want that of --selector", got)
	}
	c = clitest.Command{}
	c.WantCode(t, c.Run(t, f, "run", "start", "--filter", "rack = r8", "--type", "reboot", "--dry-run"), app.ExitOK)
	if got := clitest.Asked[*holdfastv1.ListMachinesRequest](f)[1].GetFilter(); got != "rack = r8" {
		t.Errorf("got filter %q, want that of --filter", got)
	}
	if strings.Contains(helpOf(t, f, "machine", "list"), "--selector") {
		t.Error("the help of machine list has both flags")
	}
}

func helpOf(t *testing.T, f *clitest.Cluster, args ...string) string {
	t.Helper()
	var c clitest.Command
	c.WantCode(t, c.Run(t, f, append(args, "--help")...), app.ExitOK)
	return c.Out.String()
}
