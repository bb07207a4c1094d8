package edge

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfast-metal/holdfast/cluster/outcome"
	"github.com/holdfast-metal/holdfast/fsm"
)

func TestStatus(t *testing.T) {
	for _, tt := range []struct {
		name   string
		err    error
		code   codes.Code
		reason string
		retry  bool
	}{
		{"no leader", &outcome.Error{Outcome: outcome.NotApplied,
			Err: fmt.Errorf("%w: waiting", outcome.ErrNoLeader)}, codes.Unavailable, "NO_LEADER", true},
		{"not applied", &outcome.Error{Outcome: outcome.NotApplied, Leader: "p2", Err: outcome.ErrNotLeader},
			codes.Unavailable, "NOT_APPLIED", true},
		{"unknown", &outcome.Error{Outcome: outcome.Unknown, Err: context.DeadlineExceeded}, codes.Unavailable,
			"OUTCOME_UNKNOWN", true},
		{"too large", &outcome.Error{Outcome: outcome.NotApplied, Err: outcome.ErrTooLarge}, codes.InvalidArgument,
			"COMMAND_TOO_LARGE", false},
		{"not encodable", &outcome.Error{Outcome: outcome.NotApplied, Err: outcome.ErrEncoding},
			codes.InvalidArgument, "COMMAND_NOT_ENCODABLE", false},
		{"wrapped outcome", fmt.Errorf("start run: %w", &outcome.Error{Outcome: outcome.Unknown,
			Err: errors.New("x")}), codes.Unavailable, "OUTCOME_UNKNOWN", true},
		{"draining", ErrDraining, codes.Unavailable, "SHUTTING_DOWN", true},
		{"canceled", fmt.Errorf("wait: %w", context.Canceled), codes.Canceled, "", false},
		{"deadline", fmt.Errorf("wait: %w", context.DeadlineExceeded), codes.DeadlineExceeded, "", false},
		{"status of another peer", status.Error(codes.ResourceExhausted, "slow down"), codes.ResourceExhausted, "", false},
		{"out of range", &fsm.Error{Code: fsm.OutOfRange, Reason: "CURSOR_GONE"}, codes.OutOfRange, "CURSOR_GONE", false},
		{"aborted", &fsm.Error{Code: fsm.Aborted, Reason: "ID_TAKEN"}, codes.Aborted, "ID_TAKEN", false},
		{"already exists", &fsm.Error{Code: fsm.AlreadyExists, Reason: "PLAN_EXISTS"}, codes.AlreadyExists, "PLAN_EXISTS",
			false},
		{"anything else", errors.New("disk /secret/path is full"), codes.Internal, "INTERNAL", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var log strings.Builder
			p := &Peer{Log: slog.New(slog.NewTextHandler(&log, nil))}
			err := p.Status(t.Context(), "/x/Y", tt.err)
			if got := detail[*errdetails.ErrorInfo](err).GetReason(); status.Code(err) != tt.code || got != tt.reason {
				t.Fatalf("got %v with reason %q, want %v with %q", err, got, tt.code, tt.reason)
			}
			if got := detail[*errdetails.RetryInfo](err).GetRetryDelay().AsDuration() > 0; got != tt.retry {
				t.Errorf("retry info: got %v, want %v", got, tt.retry)
			}
			if tt.code != codes.Internal {
				return
			}
			id := detail[*errdetails.ErrorInfo](err).GetMetadata()["error_id"]
			if strings.Contains(err.Error(), "secret") || id == "" || !strings.Contains(err.Error(), id) {
				t.Errorf("the client gets %q, want only an id", err)
			}
			if !strings.Contains(log.String(), id) || !strings.Contains(log.String(), "/secret/path") ||
				!strings.Contains(log.String(), "/x/Y") {
				t.Errorf("logged %q, want the id, the method and the error", log.String())
			}
		})
	}
	if err := new(Peer).Status(t.Context(), "", nil); err != nil {
		t.Errorf("no error became %v", err)
	}
}

// detail returns the first detail of a type.
func detail[D any](err error) (d D) {
	for _, a := range status.Convert(err).Details() {
		if got, ok := a.(D); ok {
			return got
		}
	}
	return d
}
