package runs

import (
	"context"

	"google.golang.org/protobuf/proto"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
	"github.com/holdfast-metal/holdfast/server/auth"
	"github.com/holdfast-metal/holdfast/server/internal/edge"
)

// StartRun starts a run, or returns the existing run with the same machine_id and
// request_id. It runs on the leader. The FSM decides which refusal has precedence
// (docs/clients.md, 002).
func (s *Service) StartRun(ctx context.Context, r *holdfastv1.StartRunRequest) (*holdfastv1.Run, error) {
	return edge.RetryAborted(func() (*holdfastv1.Run, error) {
		start := &internalv1.StartRun{
			MachineId: r.GetMachineId(),
			RequestId: r.GetRequestId(),
			Type:      r.GetType(),
			PlanId:    r.GetPlanId(),
			Params:    r.GetParams(),
		}
		if r.GetValidateOnly() && r.GetRequestId() == "" {
			start.RequestId = "validate-" + edge.RandomHex(6)
		}
		if err := s.starts.Prepare(ctx, start); err != nil {
			return nil, err
		}
		c := auth.Command(ctx)
		if c.GetOrigin() != nil {
			c.Origin.RequestId = r.GetRequestId()
		}
		c.Op = &internalv1.Command_StartRun{StartRun: start}
		if r.GetValidateOnly() {
			return s.validate(ctx, c, start)
		}
		run, err := edge.Apply[*holdfastv1.Run](ctx, s.Cluster, c)
		if err != nil {
			return nil, err
		}
		return readable(s.State.View(), run), nil
	})
}

// validate returns the run that a command would start, without the fields of a stored run, or the
// existing run of its request id.
func (s *Service) validate(
	ctx context.Context, c *internalv1.Command, start *internalv1.StartRun,
) (*holdfastv1.Run, error) {
	run, err := edge.Try[*holdfastv1.Run](ctx, s.Peer, c)
	switch {
	case err != nil:
		return nil, err
	case run.GetRunId() != start.GetRunId():
		return readable(s.State.View(), run), nil
	}
	run = proto.CloneOf(run)
	run.RunId, run.CreatedAt, run.Wait, run.QueuePosition, run.Revision = "", nil, nil, 0, 0
	return run, nil
}
