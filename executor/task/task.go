// Package task has what several leader tasks need: the interfaces to the cluster and to the state,
// commands that are retried until they are applied or refused, and texts in their recorded form. It
// must not know any task.
package task

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-metal/holdfast/cluster/outcome"
	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/internal/wait"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// Proposer commits commands. It returns an error unless the command was applied.
type Proposer interface {
	Apply(ctx context.Context, cmd *internalv1.Command) (fsm.Result, error)
}

// State is the state that tasks read: the leader's own FSM.
type State interface {
	View() *fsm.View
	Changed() <-chan struct{}
}

// Propose commits a command of the leader of an epoch. A command that was not applied is retried,
// unless it can never succeed. An unknown outcome is an error that ends the term, because the state
// has to be read again to learn the outcome.
func Propose(ctx context.Context, p Proposer, epoch uint64, cmd *internalv1.Command) (fsm.Result, error) {
	cmd.Epoch = epoch
	for pause := 5 * time.Millisecond; ; pause = min(2*pause, 250*time.Millisecond) {
		cmd.Time = nil // each proposal gets its own time
		res, err := p.Apply(ctx, cmd)
		var out *outcome.Error
		if !errors.As(err, &out) || out.Outcome != outcome.NotApplied || NeverTaken(err) {
			return res, err
		}
		if err := wait.Sleep(ctx, pause); err != nil {
			return res, err
		}
	}
}

// NeverTaken reports whether a command was rejected because of its content: any other leader would
// reject it too.
func NeverTaken(err error) bool {
	return errors.Is(err, outcome.ErrTooLarge) || errors.Is(err, outcome.ErrEncoding)
}
