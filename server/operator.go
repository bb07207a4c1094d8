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
)

// Keeper is how the cluster itself is kept (*cluster.Node). All of it works on the leader.
type Keeper interface {
	// Interlude stops the leader's tasks, lets do commit what it has to, and starts them again.
	Interlude(ctx context.Context, do func(context.Context) error) error
	// TransferTo hands the leadership over and gives who leads then.
	TransferTo(ctx context.Context, to string) (string, error)
	RemovePeer(ctx context.Context, id string, force bool) error
	Autopilot(ctx context.Context) (*holdfastv1.Autopilot, error)
}

// operatorService is OperatorService.
type operatorService struct {
	holdfastv1.UnimplementedOperatorServiceServer
	*Server
}

var errNoKeeper = errors.New("this peer has nobody who keeps the cluster: it was put together without")

func (s *operatorService) keeper() (Keeper, error) {
	if s.cfg.Keeper == nil {
		return nil, errNoKeeper
	}
	return s.cfg.Keeper, nil
}

// TransferLeadership hands the leadership over.
func (s *operatorService) TransferLeadership(ctx context.Context, r *holdfastv1.TransferLeadershipRequest) (*holdfastv1.TransferLeadershipResponse, error) {
	k, err := s.keeper()
	if err != nil {
		return nil, err
	}
	if err := s.noted(ctx, r.GetTo()); err != nil {
		return nil, err
	}
	start := time.Now()
	to, err := k.TransferTo(ctx, r.GetTo())
	if err != nil {
		return nil, err
	}
	return &holdfastv1.TransferLeadershipResponse{From: s.cfg.PeerID, To: to, Took: durationpb.New(time.Since(start))}, nil
}

// noted puts a call on record that is about a member, or about none in particular, and changes
// nothing in the state.
func (s *operatorService) noted(ctx context.Context, member string) error {
	c := s.command(ctx)
	c.Op = &internalv1.Command_NoteBackup{NoteBackup: &internalv1.NoteBackup{Members: true, Member: member}}
	_, err := s.node.Apply(ctx, c)
	return err
}

// RemovePeer takes a peer out of the cluster that is gone.
func (s *operatorService) RemovePeer(ctx context.Context, r *holdfastv1.RemovePeerRequest) (*holdfastv1.RemovePeerResponse, error) {
	if err := required("id", r.GetId()); err != nil {
		return nil, err
	}
	k, err := s.keeper()
	if err != nil {
		return nil, err
	}
	if err := s.noted(ctx, r.GetId()); err != nil {
		return nil, err
	}
	if err := k.RemovePeer(ctx, r.GetId(), r.GetForce()); err != nil {
		return nil, err
	}
	return &holdfastv1.RemovePeerResponse{}, nil
}

// Probe commits what changes nothing, on nobody's behalf: it leaves no trace.
func (s *operatorService) Probe(ctx context.Context, _ *holdfastv1.ProbeRequest) (*holdfastv1.ProbeResponse, error) {
	res, err := s.node.Apply(ctx, &internalv1.Command{FeatureLevel: 1, Op: &internalv1.Command_Beat{Beat: &internalv1.Beat{}}})
	if err != nil {
		return nil, err
	}
	return &holdfastv1.ProbeResponse{Index: res.Index, Leader: s.cfg.PeerID}, nil
}

// GetAutopilot returns the rules and how the peers are, as the leader has seen them.
func (s *operatorService) GetAutopilot(ctx context.Context, _ *holdfastv1.GetAutopilotRequest) (*holdfastv1.Autopilot, error) {
	k, err := s.keeper()
	if err != nil {
		return nil, err
	}
	return k.Autopilot(ctx)
}

// SetAutopilot replaces the rules.
func (s *operatorService) SetAutopilot(ctx context.Context, r *holdfastv1.SetAutopilotRequest) (*holdfastv1.Autopilot, error) {
	k, err := s.keeper()
	if err != nil {
		return nil, err
	}
	in := r.GetConfig()
	c := s.command(ctx)
	c.Op = &internalv1.Command_SetAutopilot{SetAutopilot: &internalv1.SetAutopilot{Config: &internalv1.AutopilotConfig{
		CleanupDeadServers: in.GetCleanupDeadServers(), DeadServerMs: in.GetDeadServerThreshold().AsDuration().Milliseconds(),
		MinQuorum: in.GetMinQuorum(), StabilizationMs: in.GetStabilizationTime().AsDuration().Milliseconds()}}}
	if _, err := s.node.Apply(ctx, c); err != nil {
		return nil, err
	}
	a, err := k.Autopilot(ctx)
	if err != nil { // it may be NOT_APPLIED, and the rules have changed
		return nil, &cluster.OutcomeError{Outcome: cluster.Unknown, Err: fmt.Errorf(
			"set autopilot's rules: they are stored, and the state of the peers could not be read (%s): "+
				"run holdfast operator autopilot state", err.Error())}
	}
	return a, nil
}

// maxClockDifference is how far the leader's clock may be from the time that the record's is set
// to.
const maxClockDifference = 5 * time.Minute

// ResetClock sets the record's clock, or shows the clocks.
func (s *operatorService) ResetClock(ctx context.Context, r *holdfastv1.ResetClockRequest) (*holdfastv1.ResetClockResponse, error) {
	v, err := s.node.View(ctx)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	out := &holdfastv1.ResetClockResponse{Before: timestamppb.New(v.Now()), Leader: timestamppb.New(now)}
	if r.GetDryRun() {
		return out, nil
	}
	if err := s.needs(ctx, fsm.Level2, "reset the clock"); err != nil {
		return nil, err
	}
	if d := now.Sub(r.GetTime().AsTime()).Abs(); r.GetTime() == nil || d > maxClockDifference {
		return nil, &fsm.Error{Code: fsm.FailedPrecondition, Reason: "CLOCKS_DIFFER", Message: fmt.Sprintf(
			"reset clock: the leader's clock shows %s, and %s was given: set the clock of this machine or of the leader right first",
			now.UTC().Format(time.RFC3339), r.GetTime().AsTime().Format(time.RFC3339))}
	}
	c := s.command(ctx)
	c.FeatureLevel, c.Op = fsm.Level2, &internalv1.Command_ResetClock{ResetClock: &internalv1.ResetClock{To: r.GetTime()}}
	if _, err := s.node.Apply(ctx, c); err != nil {
		return nil, err
	}
	return out, nil
}
