package check

import (
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-metal/holdfast/test/robustness/check/final"
	"github.com/holdfast-metal/holdfast/test/robustness/workload"
)

// order compares real time with Raft's indexes, which is exact where linearizable has to
// search. A linearizable response never shows an older state of a machine or run than an
// earlier response. Its index includes every write that was acknowledged before its call.
func order(h *workload.History, f *final.Record) []error {
	byKey := map[string][]answer{}
	add := func(key string, op workload.Op, revision uint64) {
		byKey[key] = append(byKey[key], answer{op.Call, op.Return, revision, revision, op})
	}
	for _, op := range slices.Concat(h.Ops, f.Reads) {
		if op.Stale || op.Outcome != workload.OK {
			continue
		}
		for _, m := range op.Machines {
			if m.Revision != 0 {
				add("machine "+m.ID, op, m.Revision)
			}
		}
		if op.Got != nil {
			add("run "+op.Got.ID, op, op.Got.Revision)
		}
		// For the whole cluster: the index of the response's state, and the index that it
		// proves to be committed.
		all := answer{op.Call, op.Return, op.Index, 0, op}
		for _, m := range op.Machines {
			all.proves = max(all.proves, m.Revision)
		}
		if op.Got != nil {
			all.proves = max(all.proves, op.Got.Revision)
		}
		if op.Index != 0 {
			byKey["the cluster"] = append(byKey["the cluster"], all)
		}
	}
	var errs []error
	for key, answers := range byKey {
		errs = append(errs, backward(key, answers)...)
	}
	return firstErrors(errs)
}

// answer is a response about one object: the revision it shows, and the revision that later
// ones must show therefore.
type answer struct {
	call, ret     time.Duration
	shows, proves uint64
	op            workload.Op
}

// backward returns responses that are older than one that had returned before their call.
func backward(key string, answers []answer) []error {
	calls, returns := slices.Clone(answers), slices.Clone(answers)
	slices.SortStableFunc(calls, func(a, b answer) int { return int(a.call - b.call) })
	slices.SortStableFunc(returns, func(a, b answer) int { return int(a.ret - b.ret) })
	var errs []error
	var newest answer
	n := 0
	for _, l := range calls {
		for ; n < len(returns) && returns[n].ret < l.call; n++ {
			if returns[n].proves > newest.proves {
				newest = returns[n]
			}
		}
		if l.shows < newest.proves {
			errs = append(errs, fmt.Errorf("%s went back from revision %d to %d: %s, after %s", key, newest.proves,
				l.shows, words(l.op), words(newest.op)))
		}
	}
	return errs
}
