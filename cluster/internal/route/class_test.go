package route

import (
	"fmt"
	"testing"

	"github.com/hashicorp/raft"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfast-metal/holdfast/cluster/outcome"
)

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
