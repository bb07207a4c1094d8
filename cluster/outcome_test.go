package cluster

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/hashicorp/raft"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfast-metal/holdfast/cluster/internal/wait"
	"github.com/holdfast-metal/holdfast/cluster/outcome"
)

func TestRaftOutcome(t *testing.T) {
	for _, tc := range []struct {
		err        error
		dispatched bool
		want       outcome.Kind
	}{
		{raft.ErrNotLeader, false, outcome.NotApplied},
		{raft.ErrLeadershipTransferInProgress, false, outcome.NotApplied},
		{raft.ErrEnqueueTimeout, false, outcome.NotApplied},
		{raft.ErrAbortedByRestore, true, outcome.NotApplied},
		{raft.ErrRaftShutdown, false, outcome.NotApplied},
		{raft.ErrRaftShutdown, true, outcome.Unknown},
		{raft.ErrLeadershipLost, true, outcome.Unknown},
		{raft.ErrLeadershipLost, false, outcome.Unknown},
		{errors.New("write log: no space left on device"), true, outcome.Unknown},
		{wait.ErrStopped, true, outcome.Unknown},
		{context.DeadlineExceeded, false, outcome.Unknown},
	} {
		t.Run(fmt.Sprintf("%v/%t", tc.err, tc.dispatched), func(t *testing.T) {
			if got := raftOutcome(fmt.Errorf("wrapped: %w", tc.err), tc.dispatched); got != tc.want {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
}

// TestOutcomeTexts checks that errors of other peers are quoted once, without the words of gRPC.
func TestOutcomeTexts(t *testing.T) {
	inner := &outcome.Error{Outcome: outcome.NotApplied, Err: errors.New("wait for index 9, at 8")}
	for _, tt := range []struct {
		err  error
		want string
	}{
		{inner, "not applied: wait for index 9, at 8"},
		{inner.GRPCStatus().Err(), "not applied: wait for index 9, at 8"},
		{fmt.Errorf("ask n2: %w", inner.GRPCStatus().Err()), "not applied: ask n2: not applied: wait for index 9, at 8"},
		{status.Error(codes.Internal, "no words"), "not applied: no words"},
	} {
		if got := (&outcome.Error{Outcome: outcome.NotApplied, Err: tt.err}).Error(); got != tt.want {
			t.Errorf("got %q, want %q", got, tt.want)
		}
	}
}

func TestOutcomeErrorOverGRPC(t *testing.T) {
	for _, tc := range []struct {
		name   string
		err    *outcome.Error
		code   codes.Code
		reason string
		class  class
	}{
		{"not applied", &outcome.Error{Outcome: outcome.NotApplied, Leader: "p2", Err: outcome.ErrNotLeader},
			codes.Unavailable, outcome.ReasonNotApplied, notApplied},
		{"unknown", &outcome.Error{Outcome: outcome.Unknown, Leader: "p2", Err: raft.ErrLeadershipLost}, codes.Unavailable,
			outcome.ReasonOutcomeUnknown, unknown},
		{"no leader", &outcome.Error{Outcome: outcome.NotApplied, Err: fmt.Errorf("%w: none", outcome.ErrNoLeader)},
			codes.Unavailable, outcome.ReasonNoLeader, notApplied},
		{"unknown without a leader", &outcome.Error{Outcome: outcome.Unknown, Err: outcome.ErrNoLeader}, codes.Unavailable,
			outcome.ReasonOutcomeUnknown, unknown},
		{"too large", &outcome.Error{Outcome: outcome.NotApplied, Err: outcome.ErrTooLarge},
			codes.InvalidArgument, outcome.ReasonTooLarge, final},
		{"not encodable", &outcome.Error{Outcome: outcome.NotApplied, Err: fmt.Errorf("%w: no UTF-8", outcome.ErrEncoding)},
			codes.InvalidArgument, outcome.ReasonEncoding, final},
	} {
		t.Run(tc.name, func(t *testing.T) {
			st, ok := status.FromError(fmt.Errorf("start run: %w", tc.err))
			if !ok || st.Code() != tc.code {
				t.Errorf("got code %v, want %v", st.Code(), tc.code)
			}
			var info *errdetails.ErrorInfo
			for _, d := range st.Details() {
				info, _ = d.(*errdetails.ErrorInfo)
			}
			if got := info.GetReason(); got != tc.reason || info.GetDomain() != "holdfast.dev" {
				t.Errorf("got reason %s in %s, want %s in holdfast.dev", got, info.GetDomain(), tc.reason)
			}
			if got := info.GetMetadata()["leader"]; got != tc.err.Leader {
				t.Errorf("got leader %q, want %q", got, tc.err.Leader)
			}
			if got := classOf(tc.err); got != tc.class {
				t.Errorf("got class %v, want %v", got, tc.class)
			}
			if got := classOf(st.Err()); got != tc.class {
				t.Errorf("got class %v over the wire, want %v", got, tc.class)
			}
		})
	}
	if got := classOf(status.Error(codes.FailedPrecondition, "busy")); got != final {
		t.Errorf("class of a refusal: got %v, want final", got)
	}
	if got := classOf(nil); got != final {
		t.Errorf("class of no error: got %v, want final", got)
	}
}

// The last try of a call is known to the call, and not shown to its caller.
func TestLastTry(t *testing.T) {
	err := error(&outcome.Error{Outcome: outcome.NotApplied,
		Err: lastTry{fmt.Errorf("%w: n2 does not answer", outcome.ErrNoLeader)}})
	if !errors.Is(err, errNoMoreTime) || !errors.Is(err, outcome.ErrNoLeader) {
		t.Errorf("got %v, want an error for the last try without a leader", err)
	}
	if got, want := err.Error(), "no leader: n2 does not answer"; !strings.HasSuffix(got, want) {
		t.Errorf("got %q, want %q at the end", got, want)
	}
}
