package operator

import (
	"context"
	"errors"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/holdfast-metal/holdfast/cluster/outcome"
	"github.com/holdfast-metal/holdfast/fsm"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/server/internal/edge"
	"github.com/holdfast-metal/holdfast/server/internal/nodetest"
)

// lostAdmin is a Admin that has just lost the leadership.
type lostAdmin struct{ Admin }

func (lostAdmin) Autopilot(context.Context) (*holdfastv1.Autopilot, error) {
	return nil, &outcome.Error{Outcome: outcome.NotApplied, Err: outcome.ErrNotLeader}
}

// TestSetAutopilotOutcome checks that the answer is not NOT_APPLIED if the configuration
// is stored and the leadership is lost right after.
func TestSetAutopilotOutcome(t *testing.T) {
	n := nodetest.New()
	s := New(&edge.Peer{Cluster: n}, Config{Admin: lostAdmin{}})
	_, err := s.SetAutopilot(t.Context(), &holdfastv1.SetAutopilotRequest{Config: &holdfastv1.AutopilotConfig{
		CleanupDeadServers: true, DeadServerThreshold: durationpb.New(time.Hour), MinQuorum: 3}})
	if o, ok := errors.AsType[*outcome.Error](err); !ok || o.Outcome != outcome.Unknown {
		t.Errorf("got %v, want an unknown outcome", err)
	}
	if c := n.Peer.View().Meta().GetAutopilot(); !c.GetCleanupDeadServers() {
		t.Errorf("the stored configuration is %v, want the one of the request", c)
	}
}

// TestResetClock checks that a dry run changes nothing, and that the clock is only set to
// a time that the leader's clock confirms.
func TestResetClock(t *testing.T) {
	n := nodetest.New()
	s := New(&edge.Peer{Cluster: n, State: n.Peer}, Config{})
	at := func(off time.Duration) *timestamppb.Timestamp { return timestamppb.New(time.Now().Add(off)) }
	for _, tt := range []struct {
		name   string
		req    *holdfastv1.ResetClockRequest
		reason string // empty: accepted
		set    bool
	}{
		{"shown", &holdfastv1.ResetClockRequest{DryRun: true, Time: at(time.Hour)}, "", false},
		{"no time", &holdfastv1.ResetClockRequest{}, "CLOCKS_DIFFER", false},
		{"a wrong clock at the caller", &holdfastv1.ResetClockRequest{Time: at(-6 * time.Minute)}, "CLOCKS_DIFFER", false},
		{"a clock that is a little off", &holdfastv1.ResetClockRequest{Time: at(4 * time.Minute)}, "", true},
	} {
		before := n.Peer.View().Now()
		got, err := s.ResetClock(t.Context(), tt.req)
		if e, _ := errors.AsType[*fsm.Error](err); (tt.reason == "") != (err == nil) || err != nil &&
			(e == nil || e.Reason != tt.reason) {
			t.Errorf("%s: got %v, want %q", tt.name, err, tt.reason)
			continue
		}
		if err == nil && (!got.GetBefore().AsTime().Equal(before) ||
			time.Since(got.GetLeader().AsTime()).Abs() > time.Minute) {
			t.Errorf("%s: shows %v, want the clock of the state, %s, and the leader's", tt.name, got, before)
		}
		if now := n.Peer.View().Now(); now.Equal(tt.req.GetTime().AsTime()) != tt.set {
			t.Errorf("%s: the clock of the state is %s, set %t", tt.name, now, !tt.set)
		}
	}
}
