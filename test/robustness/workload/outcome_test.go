package workload

import (
	"context"
	"errors"
	"testing"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

func TestClassify(t *testing.T) {
	with := func(code codes.Code, reason, run string) error {
		st, err := status.New(code, "no").WithDetails(&errdetails.ErrorInfo{Reason: reason, Domain: "holdfast.dev",
			Metadata: map[string]string{"run_id": run}})
		if err != nil {
			t.Fatal(err)
		}
		return st.Err()
	}
	for name, tt := range map[string]struct {
		err  error
		sent bool
		want Outcome
	}{
		"fine":                              {nil, true, OK},
		"busy":                              {with(codes.FailedPrecondition, "ACTIVE_RUN", "r"), true, Refused},
		"refusal without a reason":          {status.Error(codes.FailedPrecondition, "no"), true, Unknown},
		"not applied":                       {with(codes.Unavailable, "NOT_APPLIED", ""), true, NotApplied},
		"no leader":                         {with(codes.Unavailable, "NO_LEADER", ""), true, NotApplied},
		"unknown":                           {with(codes.Unavailable, "OUTCOME_UNKNOWN", ""), true, Unknown},
		"shutting down":                     {with(codes.Unavailable, "SHUTTING_DOWN", ""), true, Unknown},
		"never sent":                        {status.Error(codes.Unavailable, "connection refused"), false, NotApplied},
		"broken":                            {status.Error(codes.Unavailable, "EOF"), true, Unknown},
		"deadline exceeded":                 {status.FromContextError(context.DeadlineExceeded).Err(), true, Unknown},
		"deadline exceeded before the call": {status.FromContextError(context.DeadlineExceeded).Err(), false, NotApplied},
		"internal":                          {with(codes.Internal, "INTERNAL", ""), true, Unknown},
		"error without a status":            {errors.New("?"), true, Unknown},
	} {
		t.Run(name, func(t *testing.T) {
			got, _, named := classify(tt.err, tt.sent)
			if got != tt.want || (name == "busy") != (named == "r") {
				t.Errorf("got %s naming %q, want %s", got, named, tt.want)
			}
		})
	}
}
