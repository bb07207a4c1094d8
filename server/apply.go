package server

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// maxTries is how often a command is retried because the state changed while it was
// prepared.
const maxTries = 5

// apply commits a command and returns its result.
func apply[M proto.Message](ctx context.Context, node Proposer, c *internalv1.Command) (M, error) {
	var none M
	res, err := node.Apply(ctx, c)
	if err != nil {
		return none, err
	}
	m, ok := res.Value.(M)
	if !ok {
		return none, fmt.Errorf("apply %T: got result %T, want %T", c.GetOp(), res.Value, none)
	}
	return m, nil
}

// needs returns an error if the cluster's feature level is below level, because a peer is
// older.
func (s *Server) needs(ctx context.Context, level uint32, what string) error {
	v, err := s.node.View(ctx)
	if err != nil {
		return err
	}
	if !v.Has(level) {
		return &fsm.Error{Code: fsm.FailedPrecondition, Reason: "FEATURE_LEVEL",
			Message: fmt.Sprintf("%s: the cluster has a feature level below %d: upgrade all peers first", what, level)}
	}
	return nil
}

// retryAborted calls try again if the state refused the command only because it changed
// meanwhile. Examples are a generated id that is in use, and a machine whose provider
// changed after its capabilities were checked.
func retryAborted[M any](try func() (M, error)) (M, error) {
	for n := 1; ; n++ {
		m, err := try()
		var refusal *fsm.Error
		if !errors.As(err, &refusal) || refusal.Code != fsm.Aborted || n == maxTries {
			return m, err
		}
	}
}
