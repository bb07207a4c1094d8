package runs

import (
	"context"
	"time"

	"github.com/holdfast-metal/holdfast/executor/task"
	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/providers"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// A confirmation of the term permits effects on the machine of an attempt for a short
// time. It is never extended without asking a majority again. Decision 0004 has the
// proof.
const (
	// confirmValid bounds the age of a confirmation when a provider is called. It is far
	// below any election timeout.
	confirmValid = 100 * time.Millisecond

	// effectValid bounds the time from the request for a confirmation until the last byte
	// of the effect has been sent.
	effectValid = 500 * time.Millisecond

	// slack covers clocks that run at different rates, and the time from the provider's
	// check to the kernel's send.
	slack = 100 * time.Millisecond

	// fenceWait is the age of a term after which no effect of an earlier leader can reach a
	// machine any more. Earlier leaders requested their last confirmation before this one
	// was elected.
	fenceWait = effectValid + providers.DeliverTime + slack
)

// awaitFence blocks until no effect of an earlier leader can arrive any more, if such a
// leader left an attempt of the run open. Observations after that stay true until this
// leader acts.
func (r *runner) awaitFence(ctx context.Context) error {
	if run, ok := r.state.View().Run(r.id); !ok || !inAttempt(run) {
		return nil
	}
	return task.Sleep(ctx, time.Until(r.began.Add(fenceWait)))
}

// inAttempt reports whether an attempt of the run is open.
func inAttempt(run *holdfastv1.Run) bool {
	for _, s := range run.GetSteps() {
		if n := len(s.GetAttempts()); n > 0 && fsm.Open(s.GetAttempts()[n-1]) {
			return true
		}
	}
	return false
}
