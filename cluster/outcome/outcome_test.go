package outcome

import (
	"errors"
	"fmt"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// TestOutcomeTexts checks that errors of other peers are quoted once, without the words of gRPC.
func TestOutcomeTexts(t *testing.T) {
	inner := &Error{Outcome: NotApplied, Err: errors.New("wait for index 9, at 8")}
	for _, tt := range []struct {
		err  error
		want string
	}{
		{inner, "not applied: wait for index 9, at 8"},
		{inner.GRPCStatus().Err(), "not applied: wait for index 9, at 8"},
		{fmt.Errorf("ask n2: %w", inner.GRPCStatus().Err()), "not applied: ask n2: not applied: wait for index 9, at 8"},
		{status.Error(codes.Internal, "no words"), "not applied: no words"},
	} {
		if got := (&Error{Outcome: NotApplied, Err: tt.err}).Error(); got != tt.want {
			t.Errorf("got %q, want %q", got, tt.want)
		}
	}
}
