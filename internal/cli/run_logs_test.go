package cli

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-metal/holdfast/internal/cli/app"
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
			f := fixture()
			f.log, f.runs = "line\n", []*holdfastv1.Run{failedRun()}
			f.events = []*holdfastv1.RunEvent{transition(1, failedRun(), "")}
			f.refuse = func(r proto.Message) error {
				for _, name := range []string{"m-123", "nothing"} {
					if one, ok := r.(interface{ GetRunId() string }); ok && one.GetRunId() == name {
						return withReason(t, codes.NotFound, "run not found", "RUN_NOT_FOUND")
					}
				}
				return nil
			}
			startCluster(t, f)
			var c command
			c.wantCode(t, c.run(t, f, strings.Fields(tt.args)...), tt.code)
			wantIn(t, "stdout", c.out.String(), tt.want)
			if tt.want != "" {
				wantIn(t, "stderr", c.err.String(), "the last run of machine m-123 is run-789\n")
			}
		})
	}
}

func TestLogTimestamps(t *testing.T) {
	var b bytes.Buffer
	s := &stamped{w: &b}
	for _, part := range []string{"one\ntw", "o\n", "", "\nend"} {
		if err := s.write(now(), []byte(part)); err != nil {
			t.Fatal(err)
		}
	}
	const at = "2026-01-29T15:20:00.000Z "
	if got, want := b.String(), at+"one\n"+at+"two\n"+at+"\n"+at+"end"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	var c command
	c.wantCode(t, c.run(t, nil, "run", "logs", "r", "--timestamps", "-o", "json"), app.ExitUsage)
}

func TestLogText(t *testing.T) {
	f := fixture()
	f.log = "a \"b\"\n\xff"
	startCluster(t, f)
	var c command
	c.wantCode(t, c.run(t, f, "run", "logs", "run-789", "-o", "json"), app.ExitOK)
	var got struct {
		Data []byte
		Text string
	}
	if err := json.Unmarshal([]byte(c.out.String()), &got); err != nil || got.Text != "a \"b\"\n\ufffd" ||
		string(got.Data) != f.log {
		t.Errorf("got %+v, %v in %s", got, err, c.out.String())
	}
}
