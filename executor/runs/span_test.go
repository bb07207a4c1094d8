package runs

import (
	"testing"

	"github.com/holdfast-metal/holdfast/executor/step"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// Without a receiver, an attempt needs no allocations for traces.
func TestAllocsOfAttemptSpans(t *testing.T) {
	a := &attempt{runner: &runner{term: &term{Executor: &Executor{}}}, Attempt: &step.Attempt{Kind: "reboot"}}
	if got := testing.AllocsPerRun(1000, func() {
		ctx, _, done := a.traced(t.Context())
		a.endSpan(ctx, holdfastv1.Attempt_SUCCEEDED)
		done()
	}); got != 0 {
		t.Errorf("allocations for the trace of an attempt: got %v, want 0", got)
	}
}
