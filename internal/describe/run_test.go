package describe_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-metal/holdfast/internal/describe"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// The entries of a map are sorted, so that a plan is shown the same each time.
func TestStep(t *testing.T) {
	s := &holdfastv1.Step{Kind: &holdfastv1.Step_Ssh{Ssh: &holdfastv1.SshCommand{
		Command: "true", Env: map[string]string{"b": "2", "a": "1", "c": "3"}}}}
	kind, params := describe.Step(s, ",")
	want := []describe.Fact{{Name: "command", Value: "true"}, {Name: "env", Value: "a=1,b=2,c=3"}}
	if diff := cmp.Diff(want, params); kind != "ssh" || diff != "" {
		t.Errorf("%s (-want +got):\n%s", kind, diff)
	}
	if kind, params := describe.Step(&holdfastv1.Step{}, ","); kind != "" || params != nil {
		t.Errorf("a step without a kind is %q with %v", kind, params)
	}
}

func TestWhy(t *testing.T) {
	host := &holdfastv1.Wait{Kind: holdfastv1.Wait_ANSWER, Subject: "host"}
	for _, tt := range []struct {
		run   *holdfastv1.Run
		want  string
		waits bool
	}{
		{&holdfastv1.Run{Error: &holdfastv1.RunError{Reason: "StepFailed", Message: "no answer"}}, "no answer", false},
		{&holdfastv1.Run{Error: &holdfastv1.RunError{Reason: "StepFailed"}}, "StepFailed", false},
		{&holdfastv1.Run{Phase: holdfastv1.Run_SUCCEEDED, Wait: host}, "", false},
		{&holdfastv1.Run{QueuePosition: 3}, "position 3 in the queue", false},
		{&holdfastv1.Run{Phase: holdfastv1.Run_PENDING, QueuePosition: 3,
			Wait: &holdfastv1.Wait{Kind: holdfastv1.Wait_QUEUE}},
			"position 3 in the queue", false},
		{&holdfastv1.Run{Phase: holdfastv1.Run_PENDING, QueuePosition: 1, Wait: &holdfastv1.Wait{
			Kind: holdfastv1.Wait_BRAKE, Subject: "x"}},
			"waiting for the release of plan x", false},
		{&holdfastv1.Run{Wait: host}, "waiting for the host to answer", true},
		{&holdfastv1.Run{}, "", false},
	} {
		if got, waits := describe.Why(tt.run); got != tt.want || waits != tt.waits {
			t.Errorf("%v: got %q, %v, want %q, %v", tt.run, got, waits, tt.want, tt.waits)
		}
	}
}
