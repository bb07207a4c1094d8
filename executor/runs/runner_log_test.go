package runs

import (
	"log/slog"
	"strings"
	"testing"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// Every log line of a run has its id, its machine, and the request id of its caller.
func TestLinesOfARun(t *testing.T) {
	var out strings.Builder
	l := &term{Executor: &Executor{cfg: Config{Logger: slog.New(slog.NewTextHandler(&out, nil))}}}
	r := newRunner(t.Context(), l, waiting{run: &holdfastv1.Run{RunId: "run-1", MachineId: "m-1", RequestId: "mine"}},
		line{provider: "fake"})
	defer r.cancel(nil)
	r.log.Info("begun")
	if got, want := out.String(), "msg=begun run=run-1 machine=m-1 request_id=mine\n"; !strings.HasSuffix(got, want) {
		t.Errorf("got %q, want it to end with %q", got, want)
	}
}
