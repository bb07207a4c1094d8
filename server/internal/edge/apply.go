package edge

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// MaxTries is the maximum number of attempts to commit a command that the state refuses
// because it changed meanwhile.
const MaxTries = 5

// Apply commits a command and returns its result.
func Apply[M proto.Message](ctx context.Context, node Cluster, c *internalv1.Command) (M, error) {
	var none M
	res, err := node.Apply(ctx, c)
	if err != nil {
		return none, err
	}
	return result[M](c, res)
}

// Try returns the result that a command would have now, after some others, and commits nothing. It
// makes the checks of Apply.
func Try[M proto.Message](
	ctx context.Context, p *Peer, c *internalv1.Command, before ...*internalv1.Command,
) (M, error) {
	var none M
	if _, err := p.Cluster.View(ctx); err != nil { // the peer's own state is up to date after that
		return none, err
	}
	res := p.State.Try(append(before, c)...)
	if res.Err != nil {
		return none, res.Err
	}
	return result[M](c, res)
}

// result returns the record that a command made or changed.
func result[M proto.Message](c *internalv1.Command, res fsm.Result) (M, error) {
	m, ok := res.Value.(M)
	if !ok {
		var none M
		return none, fmt.Errorf("apply %T: got result %T, want %T", c.GetOp(), res.Value, none)
	}
	return m, nil
}

// ApplyEmpty commits a command, and returns an empty response.
func ApplyEmpty[R any](ctx context.Context, node Cluster, c *internalv1.Command) (*R, error) {
	if _, err := node.Apply(ctx, c); err != nil {
		return nil, err
	}
	return new(R), nil
}

// RetryAborted calls try again if the state refused the command only because it changed
// meanwhile. Examples are a generated id that is in use, and a machine whose provider
// changed after its capabilities were checked.
func RetryAborted[M any](try func() (M, error)) (M, error) {
	for n := 1; ; n++ {
		m, err := try()
		refusal, ok := errors.AsType[*fsm.Error](err)
		if !ok || refusal.Code != fsm.Aborted || n == MaxTries {
			return m, err
		}
	}
}

// Needs returns an error if the cluster's feature level is below level, because a peer is
// older. Action names the refused action in the message.
func (p *Peer) Needs(ctx context.Context, level uint32, action string) error {
	v, err := p.Cluster.View(ctx)
	if err != nil {
		return err
	}
	if !v.Has(level) {
		return &fsm.Error{Code: fsm.FailedPrecondition, Reason: "FEATURE_LEVEL",
			Message: fmt.Sprintf("%s: the cluster has a feature level below %d: upgrade all peers first", action, level)}
	}
	return nil
}
