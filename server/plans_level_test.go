package server

import (
	"errors"
	"testing"

	"github.com/holdfast-metal/holdfast/fsm"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/server/internal/edge"
	"github.com/holdfast-metal/holdfast/server/internal/nodetest"
	"github.com/holdfast-metal/holdfast/server/internal/plans"
)

// TestPlanNeedsLevel checks that a plan that older peers do not understand is refused, also by a
// dry run.
func TestPlanNeedsLevel(t *testing.T) {
	n := nodetest.New()
	s := plans.New(&edge.Peer{Node: n, State: n.Peer}, plans.Config{})
	req := &holdfastv1.CreatePlanRequest{Plan: &holdfastv1.Plan{PlanId: "p", Steps: []*holdfastv1.Step{{Name: "a",
		Kind: &holdfastv1.Step_Ssh{Ssh: &holdfastv1.SshCommand{Command: "true", Params: []string{"x"}}}}}}}
	for _, dry := range []bool{true, false} {
		req.ValidateOnly = dry
		var refusal *fsm.Error
		if _, err := s.CreatePlan(testCtx(t), req); !errors.As(err, &refusal) || refusal.Reason != "FEATURE_LEVEL" {
			t.Errorf("validate only: %v: got %v, want FEATURE_LEVEL", dry, err)
		}
	}
}
