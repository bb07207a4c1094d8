package check

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/holdfast-metal/holdfast/test/robustness/check/final"
	"github.com/holdfast-metal/holdfast/test/robustness/workload"
)

// States is the part of All that needs no history: all peers have the same state.
func States(ctx context.Context, t workload.Target) []error {
	all, err := final.Sums(ctx, t)
	if err != nil {
		return []error{err}
	}
	return states(nil, &final.Record{Sums: all})
}

// states checks that all peers have exactly the same state at the same index
// (docs/reliability.md).
func states(_ *workload.History, f *final.Record) []error {
	if len(f.Sums) == 0 {
		return []error{errors.New("no peer has returned a sum of its state")}
	}
	var errs []error
	for _, s := range f.Sums[1:] {
		switch first := f.Sums[0]; {
		case s.Index != first.Index:
			errs = append(errs, fmt.Errorf("peer %s is at index %d, peer %s at %d: they do not converge", s.Peer,
				s.Index, first.Peer, first.Index))
		case !bytes.Equal(s.Sum, first.Sum):
			errs = append(errs,
				fmt.Errorf("peers %s and %s have different states at index %d", s.Peer, first.Peer, s.Index))
		}
	}
	return errs
}
