package check

import (
	"fmt"
	"slices"

	"github.com/holdfast-metal/holdfast/test/robustness/check/final"
	"github.com/holdfast-metal/holdfast/test/robustness/workload"
)

// revisions checks that a machine has one content at each revision, in all responses,
// including stale ones: a stale read may be old, but it must show a state that existed.
func revisions(h *workload.History, f *final.Record) []error {
	type key struct {
		id       string
		revision uint64
	}
	type shown struct {
		seen workload.MachineSeen
		op   workload.Op
	}
	first := map[key]shown{}
	var errs []error
	for _, op := range slices.Concat(h.Ops, f.Reads) {
		for _, m := range op.Machines {
			if m.Revision == 0 {
				continue
			}
			k := key{m.ID, m.Revision}
			o, ok := first[k]
			if !ok {
				first[k] = shown{m, op}
			} else if o.seen != m && !sameEntry(o.op, op) {
				errs = append(errs, fmt.Errorf("machine %s at revision %d is %+v in %s, and %+v in %s", m.ID,
					m.Revision, o.seen, words(o.op), m, words(op)))
			}
		}
	}
	return firstErrors(errs)
}

// sameEntry reports whether the two responses may be of commands in the same Raft entry,
// which share a revision: then each may show a state between two of them.
func sameEntry(a, b workload.Op) bool {
	return a.Kind == workload.UpdateMachine || b.Kind == workload.UpdateMachine
}
