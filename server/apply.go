package server

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// maxTries bounds how often a command is made again because the state changed while it was being
// made.
const maxTries = 5

// apply commits a command and gives the message it answers with.
func apply[M proto.Message](ctx context.Context, node Proposer, c *internalv1.Command) (M, error) {
	var none M
	res, err := node.Apply(ctx, c)
	if err != nil {
		return none, err
	}
	m, ok := res.Value.(M)
	if !ok {
		return none, fmt.Errorf("apply %T: the state answered %T, not %T", c.GetOp(), res.Value, none)
	}
	return m, nil
}

// needs returns an error if an older peer is left that does not know a feature level.
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

// again repeats what the state refused only because it had changed meanwhile: a generated id was in
// use, or the machine got another provider after its capabilities were checked.
func again[M any](try func() (M, error)) (M, error) {
	for n := 1; ; n++ {
		m, err := try()
		var refusal *fsm.Error
		if !errors.As(err, &refusal) || refusal.Code != fsm.Aborted || n == maxTries {
			return m, err
		}
	}
}
