package task

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-metal/holdfast/cluster/outcome"
	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// answers are the errors of a sequence of proposals.
type answers struct {
	t    *testing.T
	errs []error
	n    int
}

func (a *answers) Apply(_ context.Context, cmd *internalv1.Command) (fsm.Result, error) {
	if cmd.GetEpoch() != 7 || cmd.GetTime() != nil {
		a.t.Errorf("proposal %d: got epoch %d and time %v, want 7 and none", a.n, cmd.GetEpoch(), cmd.GetTime())
	}
	err := a.errs[a.n]
	a.n++
	return fsm.Result{Index: uint64(a.n)}, err
}

func TestPropose(t *testing.T) {
	notApplied := &outcome.Error{Outcome: outcome.NotApplied, Err: outcome.ErrNoLeader}
	unknown := &outcome.Error{Outcome: outcome.Unknown, Err: errors.New("leader was killed")}
	tooLarge := &outcome.Error{Outcome: outcome.NotApplied, Err: fmt.Errorf("entry: %w", outcome.ErrTooLarge)}
	refused := &fsm.Error{Code: fsm.Aborted, Reason: fsm.ReasonStaleEpoch}
	tests := []struct {
		name string
		errs []error
		want error
		n    int // proposals
	}{
		{"applied", []error{nil}, nil, 1},
		{"applied after retries", []error{notApplied, notApplied, nil}, nil, 3},
		{"unknown", []error{notApplied, unknown}, unknown, 2},
		{"too large", []error{tooLarge}, tooLarge, 1},
		{"refused", []error{refused}, refused, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := &answers{t: t, errs: tt.errs}
				_, err := Propose(t.Context(), a, 7, &internalv1.Command{})
				if !errors.Is(err, tt.want) || a.n != tt.n {
					t.Errorf("got %v after %d proposals, want %v after %d", err, a.n, tt.want, tt.n)
				}
			})
		})
	}
}

func TestProposeEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithTimeout(t.Context(), time.Second)
		defer stop()
		a := &answers{t: t}
		for range 1000 {
			a.errs = append(a.errs, &outcome.Error{Outcome: outcome.NotApplied, Err: outcome.ErrNoLeader})
		}
		if _, err := Propose(ctx, a, 7, &internalv1.Command{}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want %v", err, context.DeadlineExceeded)
		}
		if a.n < 5 || a.n > 20 {
			t.Errorf("got %d proposals in a second, want 5 to 20: the delay doubles up to 250 ms", a.n)
		}
	})
}
