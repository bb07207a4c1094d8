package check

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/test/robustness/check/final"
	"github.com/holdfast-metal/holdfast/test/robustness/workload"
)

// oneActive checks that a machine never had two active runs (docs/reliability.md), by the
// recorded times: each run was created after the one before it had ended. The times are
// those of the state machine, whose clock never goes back.
func oneActive(_ *workload.History, f *final.Record) []error {
	runs := slices.Clone(f.Runs)
	slices.SortStableFunc(runs, func(a, b *holdfastv1.Run) int {
		// That clock stops while the clocks of peers are behind it: then many runs have the
		// same times.
		return cmp.Or(a.GetCreatedAt().AsTime().Compare(b.GetCreatedAt().AsTime()), over(a).Compare(over(b)))
	})
	last := map[string]*holdfastv1.Run{}
	var errs []error
	for _, r := range runs {
		before := last[r.GetMachineId()]
		if before != nil && over(before).After(r.GetCreatedAt().AsTime()) {
			errs = append(errs,
				fmt.Errorf("machine %s has run %s from %s on, and had run %s until %s", r.GetMachineId(), r.GetRunId(),
					clock(r.GetCreatedAt()), before.GetRunId(), clock(before.GetFinishedAt())))
		}
		if before == nil || !over(before).After(over(r)) {
			last[r.GetMachineId()] = r
		}
	}
	return firstErrors(errs)
}

// over returns when a run ended; an active run sorts last.
func over(r *holdfastv1.Run) time.Time {
	if r.GetFinishedAt() == nil {
		return time.Unix(1<<40, 0)
	}
	return r.GetFinishedAt().AsTime()
}

func clock(t *timestamppb.Timestamp) string { return t.AsTime().Format("15:04:05.000000") }
