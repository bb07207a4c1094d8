package cli

import (
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-metal/holdfast/internal/cli/app"
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
			f := fixture()
			f.refuse = func(r proto.Message) error {
				switch r.(type) {
				case *holdfastv1.ListPlansRequest, *holdfastv1.ListMachinesRequest, *holdfastv1.ListRunsRequest:
					return nil
				}
				return withReason(t, codes.NotFound, tt.msg, tt.reason)
			}
			startCluster(t, f)
			var c command
			c.wantCode(t, c.run(t, f, strings.Fields(tt.args)...), app.ExitNotFound)
			wantIn(t, "stderr", c.err.String(), tt.want)
		})
	}
}

func TestSelectorIsFilter(t *testing.T) {
	f := fixture()
	f.waves = &fakeWaves{}
	startCluster(t, f)
	var c command
	c.wantCode(t, c.run(t, f, "machine", "list", "--selector", "rack = r7"), app.ExitOK)
	if got := asked[*holdfastv1.ListMachinesRequest](f)[0].GetFilter(); got != "rack = r7" {
		t.Errorf("got filter %q, want that of --selector", got)
	}
	c = command{}
	c.wantCode(t, c.run(t, f, "run", "start", "--filter", "rack = r8", "--type", "reboot", "--dry-run"), app.ExitOK)
	if got := asked[*holdfastv1.ListMachinesRequest](f)[1].GetFilter(); got != "rack = r8" {
		t.Errorf("got filter %q, want that of --filter", got)
	}
	if strings.Contains(helpOf(t, f, "machine", "list"), "--selector") {
		t.Error("the help of machine list has both flags")
	}
}

func helpOf(t *testing.T, f *fakeCluster, args ...string) string {
	t.Helper()
	var c command
	c.wantCode(t, c.run(t, f, append(args, "--help")...), app.ExitOK)
	return c.out.String()
}
