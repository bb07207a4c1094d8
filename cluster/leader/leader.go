// Package leader owns what work needs that only the leader does: the interface of a task, and the
// term in which it works. It must not know how a term begins or ends.
package leader

import (
	"context"
	"errors"
)

// Task is work that only the leader does.
type Task interface {
	// Run works until ctx ends, which it does with the leadership. An error ends the
	// leadership.
	Run(ctx context.Context, t Term) error
}

// Term is one leadership.
type Term struct {
	// Epoch is the Raft term. The state refuses commands of an older epoch.
	Epoch   uint64
	confirm func(context.Context) error
}

// NewTerm returns a term of an epoch, which confirm confirms.
func NewTerm(epoch uint64, confirm func(context.Context) error) Term {
	return Term{Epoch: epoch, confirm: confirm}
}

// Confirm returns nil only if a majority confirmed, after the call began, that the term is
// current. Call it right before each external effect: a leader that was paused may have
// been replaced. It takes one round trip, and at most 5 s.
func (t Term) Confirm(ctx context.Context) error {
	if t.confirm == nil {
		return errors.New("term does not belong to a leader")
	}
	return t.confirm(ctx)
}
