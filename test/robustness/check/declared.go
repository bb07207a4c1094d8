package check

import (
	"fmt"

	"github.com/holdfast-metal/holdfast/test/robustness/check/final"
	"github.com/holdfast-metal/holdfast/test/robustness/workload"
)

// declared checks pools and plans that are created once and deleted once. Acknowledged ones
// exist, for every read and at the end; deleted ones do not. Writes with an unknown outcome
// prove nothing.
func declared(h *workload.History, f *final.Record) []error {
	added, dropped := map[string]workload.Op{}, map[string]workload.Op{}
	for _, op := range h.Ops {
		switch op.Kind {
		case workload.CreatePool, workload.CreatePlanOnce:
			added[op.Pool+op.Plan] = op
		case workload.DeletePool, workload.DeletePlan:
			dropped[op.Pool+op.Plan] = op
		}
	}
	var errs []error
	absent := func(op workload.Op) bool { return op.Outcome == workload.Refused && op.Code == "NotFound" }
	for id, add := range added {
		drop, tried := dropped[id]
		listed := f.Declared[id]
		switch {
		case add.Outcome == workload.Refused:
			errs = append(errs, fmt.Errorf("%s: %s", words(add), add.Message))
		case add.Outcome == workload.NotApplied && listed:
			errs = append(errs, fmt.Errorf("%s is listed, although it was not created: %s", id, words(add)))
		case add.Outcome != workload.OK:
		case tried && absent(drop):
			errs = append(errs, fmt.Errorf("%s was lost before it was deleted: %s", id, words(add)))
		case tried && drop.Outcome == workload.OK && listed:
			errs = append(errs, fmt.Errorf("%s is listed after its deletion: %s", id, words(drop)))
		case (!tried || drop.Outcome == workload.NotApplied) && !listed:
			errs = append(errs, fmt.Errorf("%s is lost: %s", id, words(add)))
		}
	}
	for _, op := range h.Ops {
		if op.Kind != workload.GetPool && op.Kind != workload.GetPlanOnce {
			continue
		}
		id := op.Pool + op.Plan
		add, drop := added[id], dropped[id]
		if add.Outcome == workload.OK && op.Call > add.Return && absent(op) &&
			(drop.Kind == "" || op.Return < drop.Call) {
			errs = append(errs, fmt.Errorf("%s was not found: %s, after %s", id, words(op), words(add)))
		}
		if drop.Outcome == workload.OK && op.Call > drop.Return && op.Outcome == workload.OK {
			errs = append(errs, fmt.Errorf("%s was found after its deletion: %s, after %s", id, words(op), words(drop)))
		}
	}
	return firstErrors(errs)
}
