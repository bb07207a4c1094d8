package runs

import (
	"context"
	"time"
)

// A run is between two attempts from the effect of the first until the intent of the second is
// committed. It holds a place of the turnstile meanwhile, except while it waits for a retry.
const (
	// places is the default number of runs of each class that are between two attempts. Their
	// commits share the entries of the log. With fewer places the entries are small, and the leader
	// waits for its disk; with more, each commit waits for those of more runs.
	places = 192

	// observeFor is the longest time for which a run keeps its place while it observes the machine.
	// Other runs must not wait for a BMC that does not answer.
	observeFor = 100 * time.Millisecond
)

// enter blocks until the run holds a place of the turnstile. It returns an error if ctx ends first.
func (r *runner) enter(ctx context.Context) error {
	if r.entered {
		return nil
	}
	if err := r.between.Enter(ctx, r.line.class); err != nil {
		return r.whyEnded(err)
	}
	r.entered = true
	return nil
}

// leave frees the place that the run holds, if any.
func (r *runner) leave() {
	if r.entered {
		r.entered = false
		r.between.Leave(r.line.class)
	}
}

// enterToEnd blocks until the run holds a place for the outcome of an attempt and its next step, or
// ctx ends. The outcome of the last step needs none.
func (r *runner) enterToEnd(ctx context.Context) {
	steps := r.run.GetSteps()
	if steps[len(steps)-1].GetName() != r.run.GetCurrentStep() {
		_ = r.enter(ctx) // an attempt that is canceled or out of time ends without a place
	}
}

// observing calls do, which observes the machine. If that takes long, the place is freed meanwhile.
// Then it blocks until the run holds one again, or ctx ends.
func (r *runner) observing(ctx context.Context, do func()) {
	if !r.entered {
		do()
		return
	}
	free := time.AfterFunc(observeFor, func() { r.between.Leave(r.line.class) })
	func() {
		defer func() { r.entered = free.Stop() }() // also if do panics
		do()
	}()
	_ = r.enter(ctx)
}
