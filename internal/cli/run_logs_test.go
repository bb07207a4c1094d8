package cli_test

import (
	"encoding/json"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-metal/holdfast/internal/cli/app"
	"github.com/holdfast-metal/holdfast/internal/cli/clitest"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// TestMachineForRun checks that the id of a machine stands for its last run.
func TestMachineForRun(t *testing.T) {
	for _, tt := range []struct {
		args string
		code int
		want string // on standard output
	}{
		{"run get m-123 -o name", app.ExitOK, "run-789"},
		{"run logs m-123", app.ExitOK, "line"},
		{"run watch m-123", app.ExitRunFailed, "run-789"},
		{"run wait m-123 -o name", app.ExitRunFailed, "run-789"},
		{"run retry m-123 --yes -o name", app.ExitOK, "run-789"},
		{"run cancel m-123 -o name", app.ExitOK, "run-789"},
		{"run get nothing", app.ExitNotFound, ""},
		{"run cancel nothing", app.ExitNotFound, ""},
	} {
		t.Run(tt.args, func(t *testing.T) {
			f := clitest.Fixture()
			f.Log, f.Runs = "line\n", []*holdfastv1.Run{clitest.FailedRun()}
			f.Events = []*holdfastv1.RunEvent{transition(1, clitest.FailedRun(), "")}
			f.Refuse = func(r proto.Message) error {
				for _, name := range []string{"m-123", "nothing"} {
					if one, ok := r.(interface{ GetRunId() string }); ok && one.GetRunId() == name {
						return clitest.WithReason(t, codes.NotFound, "run not found", "RUN_NOT_FOUND")
					}
				}
				return nil
			}
			clitest.Start(t, f)
			var c clitest.Command
			c.WantCode(t, c.Run(t, f, strings.Fields(tt.args)...), tt.code)
			clitest.WantIn(t, "stdout", c.Out.String(), tt.want)
			if tt.want != "" {
				clitest.WantIn(t, "stderr", c.Err.String(), "the last run of machine m-123 is run-789\n")
			}
		})
	}
}

func TestLogText(t *testing.T) {
	f := clitest.Fixture()
	f.Log = "a \"b\"\n\xff"
	clitest.Start(t, f)
	var c clitest.Command
	c.WantCode(t, c.Run(t, f, "run", "logs", "run-789", "-o", "json"), app.ExitOK)
	var got struct {
		Data []byte
		Text string
	}
	if err := json.Unmarshal([]byte(c.Out.String()), &got); err != nil || got.Text != "a \"b\"\n\ufffd" ||
		string(got.Data) != f.Log {
		t.Errorf("got %+v, %v in %s", got, err, c.Out.String())
	}
}

func TestTimestampsNeedText(t *testing.T) {
	var c clitest.Command
	c.WantCode(t, c.Run(t, nil, "run", "logs", "r", "--timestamps", "-o", "json"), app.ExitUsage)
}
