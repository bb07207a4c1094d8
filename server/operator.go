package server

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/holdfast-metal/holdfast/cluster"
	"github.com/holdfast-metal/holdfast/fsm"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
	"github.com/holdfast-metal/holdfast/server/auth"
	"github.com/holdfast-metal/holdfast/server/internal/request"
)

// Keeper administers the cluster (*cluster.Node). All of it runs on the leader.
type Keeper interface {
	// Interlude stops the leader's tasks, calls do, which may commit, and starts the
	// tasks again.
	Interlude(ctx context.Context, do func(context.Context) error) error
	// TransferTo transfers the leadership and returns the new leader.
	TransferTo(ctx context.Context, to string) (string, error)
	RemovePeer(ctx context.Context, id string, force bool) error
	Autopilot(ctx context.Context) (*holdfastv1.Autopilot, error)
}

// operatorService implements OperatorService.
type operatorService struct {
	holdfastv1.UnimplementedOperatorServiceServer
	*Server
}

var errNoKeeper = errors.New("cluster administration is not available on this peer")

func (s *operatorService) keeper() (Keeper, error) {
	if s.cfg.Keeper == nil {
		return nil, errNoKeeper
	}
	return s.cfg.Keeper, nil
}

// TransferLeadership transfers the leadership to another peer.
func (s *operatorService) TransferLeadership(
	ctx context.Context, r *holdfastv1.TransferLeadershipRequest,
) (*holdfastv1.TransferLeadershipResponse, error) {
	k, err := s.keeper()
	if err != nil {
		return nil, err
	}
	if err := s.recordAudit(ctx, r.GetTo()); err != nil {
		return nil, err
	}
	start := time.Now()
	to, err := k.TransferTo(ctx, r.GetTo())
	if err != nil {
		return nil, err
	}
	return &holdfastv1.TransferLeadershipResponse{
		From: s.cfg.PeerID, To: to, Took: durationpb.New(time.Since(start)),
	}, nil
}

// recordAudit records a call about a peer, or about none in particular, in the audit trail. It
// changes nothing else in the state.
func (s *operatorService) recordAudit(ctx context.Context, member string) error {
	c := auth.Command(ctx)
	c.Op = &internalv1.Command_NoteBackup{NoteBackup: &internalv1.NoteBackup{Members: true, Member: member}}
	_, err := s.Node.Apply(ctx, c)
	return err
}

// RemovePeer removes a lost peer from the cluster.
func (s *operatorService) RemovePeer(
	ctx context.Context, r *holdfastv1.RemovePeerRequest,
) (*holdfastv1.RemovePeerResponse, error) {
	if err := request.Required("id", r.GetId()); err != nil {
		return nil, err
	}
	k, err := s.keeper()
	if err != nil {
		return nil, err
	}
	if err := s.recordAudit(ctx, r.GetId()); err != nil {
		return nil, err
	}
	if err := k.RemovePeer(ctx, r.GetId(), r.GetForce()); err != nil {
		return nil, err
	}
	return &holdfastv1.RemovePeerResponse{}, nil
}

// Probe commits a command that changes nothing and writes no audit event.
func (s *operatorService) Probe(ctx context.Context, _ *holdfastv1.ProbeRequest) (*holdfastv1.ProbeResponse, error) {
	res, err := s.Node.Apply(ctx, &internalv1.Command{
		Op: &internalv1.Command_Beat{Beat: &internalv1.Beat{}},
	})
	if err != nil {
		return nil, err
	}
	return &holdfastv1.ProbeResponse{Index: res.Index, Leader: s.cfg.PeerID}, nil
}

// GetAutopilot returns the configuration of autopilot, and the health of the peers as the
// leader sees it.
func (s *operatorService) GetAutopilot(
	ctx context.Context, _ *holdfastv1.GetAutopilotRequest,
) (*holdfastv1.Autopilot, error) {
	k, err := s.keeper()
	if err != nil {
		return nil, err
	}
	return k.Autopilot(ctx)
}

// SetAutopilot replaces the configuration of autopilot.
func (s *operatorService) SetAutopilot(
	ctx context.Context, r *holdfastv1.SetAutopilotRequest,
) (*holdfastv1.Autopilot, error) {
	k, err := s.keeper()
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
	if _, err := s.Node.Apply(ctx, c); err != nil {
		return nil, err
	}
	a, err := k.Autopilot(ctx)
	if err != nil { // err may be NOT_APPLIED, although the configuration has changed
		return nil, &cluster.OutcomeError{Outcome: cluster.Unknown, Err: fmt.Errorf(
			"set autopilot: the configuration is stored, but reading the state of the peers failed (%s): "+
				"run holdfast operator autopilot state", err.Error())}
	}
	return a, nil
}

// maxClockDifference is the maximum difference between the leader's clock and the time to
// which the clock of the state is reset.
const maxClockDifference = 5 * time.Minute

// ResetClock resets the clock of the state, or only returns the clocks.
func (s *operatorService) ResetClock(
	ctx context.Context, r *holdfastv1.ResetClockRequest,
) (*holdfastv1.ResetClockResponse, error) {
	v, err := s.Node.View(ctx)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	out := &holdfastv1.ResetClockResponse{Before: timestamppb.New(v.Now()), Leader: timestamppb.New(now)}
	if r.GetDryRun() {
		return out, nil
	}
	if err := s.Needs(ctx, fsm.Level2, "reset the clock"); err != nil {
		return nil, err
	}
	if d := now.Sub(r.GetTime().AsTime()).Abs(); r.GetTime() == nil || d > maxClockDifference {
		return nil, &fsm.Error{Code: fsm.FailedPrecondition, Reason: "CLOCKS_DIFFER", Message: fmt.Sprintf(
			"reset clock: the leader's clock shows %s, the request %s: "+
				"correct the clock of this machine or the leader first",
			now.UTC().Format(time.RFC3339), r.GetTime().AsTime().Format(time.RFC3339))}
	}
	c := auth.Command(ctx)
	c.Op = &internalv1.Command_ResetClock{ResetClock: &internalv1.ResetClock{To: r.GetTime()}}
	if _, err := s.Node.Apply(ctx, c); err != nil {
		return nil, err
	}
	return out, nil
}
