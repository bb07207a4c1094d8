package workload

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast-metal/holdfast/internal/wait"
)

// enoughTime limits the traffic after its end if there was not enough of it.
const enoughTime = time.Minute

// Lacks returns the minimum numbers of calls that the history has not reached. Without them, the
// checks say little.
func (h *History) Lacks() []error {
	var errs []error
	answered := 0
	for _, op := range h.Ops {
		if op.Outcome == OK || op.Outcome == Refused {
			answered++
		}
	}
	if answered < h.MinOps {
		errs = append(errs,
			fmt.Errorf("%d of %d calls were answered, want at least %d", answered, len(h.Ops), h.MinOps))
	}
	for _, k := range []Kind{StartRun, CancelRun, GetRun, UpdateMachine, GetMachine, ListMachines, CreatePlan, GetPlan} {
		// The rarest kinds are 3 of 100 calls: a quarter of these must have succeeded.
		if n, want := h.Count(k, OK), max(1, h.MinOps*3/400); n < want && k != CancelRun || n == 0 {
			errs = append(errs, fmt.Errorf("%d calls of %s succeeded, want at least %d", n, k, want))
		}
	}
	return errs
}

// untilEnough returns a context that ends after ctx, as soon as there were enough calls: a busy
// machine makes few calls in the time of a short test. The caller must call stop.
func (w *Workload) untilEnough(ctx context.Context) (longer context.Context, stop context.CancelFunc) {
	longer, stop = context.WithCancel(context.WithoutCancel(ctx))
	go func() {
		defer stop()
		select {
		case <-longer.Done():
			return
		case <-ctx.Done():
		}
		limit, done := context.WithTimeout(longer, enoughTime)
		defer done()
		for h := (&History{MinOps: w.cfg.MinOps, Ops: w.rec.Ops()}); len(h.Lacks()) > 0; h.Ops = w.rec.Ops() {
			if wait.Sleep(limit, 100*time.Millisecond) != nil {
				return
			}
		}
	}()
	return longer, stop
}
