package operator

import (
	"context"
	"fmt"

	"github.com/holdfast-metal/holdfast/cluster/outcome"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
	"github.com/holdfast-metal/holdfast/server/auth"
)

// GetAutopilot returns the configuration of autopilot, and the health of the peers as the
// leader sees it.
func (s *Service) GetAutopilot(
	ctx context.Context, _ *holdfastv1.GetAutopilotRequest,
) (*holdfastv1.Autopilot, error) {
	k, err := s.admin()
	if err != nil {
		return nil, err
	}
	return k.Autopilot(ctx)
}

// SetAutopilot replaces the configuration of autopilot.
func (s *Service) SetAutopilot(
	ctx context.Context, r *holdfastv1.SetAutopilotRequest,
) (*holdfastv1.Autopilot, error) {
	k, err := s.admin()
	if err != nil {
		return nil, err
	}
	in := r.GetConfig()
	c := auth.Command(ctx)
	c.Op = &internalv1.Command_SetAutopilot{SetAutopilot: &internalv1.SetAutopilot{Config: &internalv1.AutopilotConfig{
		CleanupDeadServers: in.GetCleanupDeadServers(),
		DeadServerMs:       in.GetDeadServerThreshold().AsDuration().Milliseconds(),
		MinQuorum:          in.GetMinQuorum(),
		StabilizationMs:    in.GetStabilizationTime().AsDuration().Milliseconds(),
	}}}
	if _, err := s.Cluster.Apply(ctx, c); err != nil {
		return nil, err
	}
	a, err := k.Autopilot(ctx)
	if err != nil { // err may be NOT_APPLIED, although the configuration has changed
		return nil, &outcome.Error{Outcome: outcome.Unknown, Err: fmt.Errorf(
			"set autopilot: the configuration is stored, but reading the state of the peers failed (%s): "+
				"run holdfast operator autopilot state", err.Error())}
	}
	return a, nil
}
