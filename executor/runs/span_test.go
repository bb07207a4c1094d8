package runs

import (
	"testing"

	"github.com/holdfast-metal/holdfast/executor/step"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// Without a receiver, an attempt has no cost for traces.
func TestAllocsOfAttemptSpans(t *testing.T) {
	a := &attempt{runner: &runner{term: &term{Executor: &Executor{}}}, Attempt: &step.Attempt{Kind: "reboot"}}
	if got := testing.AllocsPerRun(1000, func() {
		ctx, _, done := a.traced(t.Context())
		a.endSpan(ctx, holdfastv1.Attempt_SUCCEEDED)
		done()
	}); got != 0 {
		t.Errorf("the trace of an attempt allocates %v times, want none", got)
	}
}
