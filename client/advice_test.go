package client

import (
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// TestAdviceOfUnknownOutcome checks the remedy of a call that may have been applied.
func TestAdviceOfUnknownOutcome(t *testing.T) {
	for _, tt := range []struct {
		method     string
		repeatable bool
		want       string
	}{
		{"/holdfast.v1.MachineService/RegisterMachine", true, "repeat the same request"},
		{"/holdfast.v1.MachineService/RegisterMachine", false, "pass a machine_id next time"},
		{"/holdfast.v1.MachineService/DeleteMachine", false, "read it back"},
		{"/other.Service/Method", false, "read the state back"},
	} {
		e := &CallError{Method: tt.method, Addr: "a:1", Tries: 1, OutcomeUnknown: true, Repeatable: tt.repeatable,
			Err: status.Error(codes.Unavailable, "lost")}
		if got := e.Error(); !strings.Contains(got, tt.want) {
			t.Errorf("%s, repeatable %v: got %q, want %q in it", tt.method, tt.repeatable, got, tt.want)
		}
	}
}
