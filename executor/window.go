package executor

import (
	"context"
	"time"

	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/providers"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// A confirmed term is a lease on the machine of an attempt: short, and never renewed in silence.
// Decision 0004 has the proof.
const (
	// confirmValid bounds how old a confirmation may be when a provider is called. It is far below
	// any election timeout.
	confirmValid = 100 * time.Millisecond

	// effectValid bounds the time from the question for a confirmation to when the last byte of the
	// effect has left.
	effectValid = 500 * time.Millisecond

	// slack is for clocks that do not run at the same rate, and for the way from the provider's
	// check to the kernel.
	slack = 100 * time.Millisecond

	// outlast is how old a term has to be before nothing of an earlier one can reach a machine any
	// more. Earlier leaders asked for their last confirmation before this one was elected.
	outlast = effectValid + providers.DeliverTime + slack
)

// outlive waits, when an earlier leader has left an attempt of the run open, until nothing that it
// has sent can arrive any more. What is observed after that stays true until this leader acts.
func (r *runner) outlive(ctx context.Context) error {
	if run, ok := r.state.View().Run(r.id); !ok || !inAttempt(run) {
		return nil
	}
	return sleep(ctx, time.Until(r.began.Add(outlast)))
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
