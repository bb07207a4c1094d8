package fsm_test

import (
	"testing"

	"github.com/holdfast-metal/holdfast/fsm/fsmtest"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// The address of a host changes with the outcome of the step that moved it, and with nothing
// else.
func TestHostMoves(t *testing.T) {
	for name, tt := range map[string]struct {
		kind    string
		outcome holdfastv1.Attempt_Outcome
		want    string
	}{
		"applied":           {"net", succeeded, "10.0.0.9:22"},
		"not applied":       {"net", failed, ""},
		"canceled":          {"net", canceled, ""},
		"a step of another": {"ssh", succeeded, ""},
	} {
		t.Run(name, func(t *testing.T) {
			p := fsmtest.NewPeer()
			register(t, p, "m", ready)
			plan(t, p, "plan/x", tt.kind, "netboot")
			op := startOp("m", "q", "", "plan/x")
			if tt.kind == "net" {
				op.Params = map[string]string{"net_config": "auto eth0"}
			}
			do(t, p, op)
			begin(t, p, "run-q")
			step, n := current(t, p, "run-q")
			do(t, p, &internalv1.EndAttempt{RunId: "run-q", Step: step, Attempt: n, Outcome: tt.outcome,
				EvidenceAfter: map[string]string{"ssh_endpoint": "10.0.0.9:22"}})
			if got := getMachine(t, p, "m").GetSpec().GetSshEndpoint(); got != tt.want {
				t.Errorf("ssh_endpoint is %q, want %q", got, tt.want)
			}
		})
	}
}
