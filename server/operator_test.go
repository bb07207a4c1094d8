package server

import (
	"context"
	"errors"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/holdfast-metal/holdfast/cluster"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// lostKeeper is the keeper of a peer that has just lost the leadership.
type lostKeeper struct{ Keeper }

func (lostKeeper) Autopilot(context.Context) (*holdfastv1.Autopilot, error) {
	return nil, &cluster.OutcomeError{Outcome: cluster.NotApplied, Err: cluster.ErrNotLeader}
}

// TestSetAutopilotOutcome: rules that are stored are not answered with NOT_APPLIED when the leadership is lost right after.
func TestSetAutopilotOutcome(t *testing.T) {
	n := newNode()
	s := &operatorService{Server: &Server{node: n, cfg: Config{Keeper: lostKeeper{}}}}
	_, err := s.SetAutopilot(t.Context(), &holdfastv1.SetAutopilotRequest{Config: &holdfastv1.AutopilotConfig{
		CleanupDeadServers: true, DeadServerThreshold: durationpb.New(time.Hour), MinQuorum: 3}})
	if o, ok := errors.AsType[*cluster.OutcomeError](err); !ok || o.Outcome != cluster.Unknown {
		t.Errorf("got %v, want an outcome that is unknown", err)
	}
	if c := n.peer.View().Meta().GetAutopilot(); !c.GetCleanupDeadServers() {
		t.Errorf("the rules on record are %v, want those that were set", c)
	}
}
