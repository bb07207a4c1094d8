package server

import (
	"context"
	"errors"
	"fmt"

	"github.com/holdfast-metal/holdfast/fsm"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
	"github.com/holdfast-metal/holdfast/providers"
	"github.com/holdfast-metal/holdfast/server/auth"
	"github.com/holdfast-metal/holdfast/server/internal/edge"
)

// StartRun starts a run, or returns the existing run with the same machine_id and
// request_id. It runs on the leader. The FSM decides which refusal has precedence
// (docs/clients.md, 002).
func (s *runService) StartRun(ctx context.Context, r *holdfastv1.StartRunRequest) (*holdfastv1.Run, error) {
	return edge.RetryAborted(func() (*holdfastv1.Run, error) {
		start := &internalv1.StartRun{
			RunId:                        "run-" + edge.RandomHex(6),
			MachineId:                    r.GetMachineId(),
			RequestId:                    r.GetRequestId(),
			Type:                         r.GetType(),
			PlanId:                       r.GetPlanId(),
			Params:                       r.GetParams(),
			DefaultTimeoutSeconds:        int32(s.cfg.DefaultStepTimeout.Seconds()),
			DefaultMaxRetries:            s.cfg.DefaultMaxRetries,
			DefaultInstallTimeoutSeconds: int32(s.cfg.DefaultInstallTimeout.Seconds()),
		}
		if err := fsm.CheckStartRun(start); err != nil {
			return nil, err
		}
		if err := s.checkCapabilities(ctx, start); err != nil {
			return nil, err
		}
		c := auth.Command(ctx)
		if c.GetOrigin() != nil {
			c.Origin.RequestId = r.GetRequestId()
		}
		c.Op = &internalv1.Command_StartRun{StartRun: start}
		return edge.Apply[*holdfastv1.Run](ctx, s.Node, c)
	})
}

// checkCapabilities adds to the command what the machine's provider lacks for the plan.
// The FSM cannot check it, because it depends on the configuration of the peer.
func (s *Server) checkCapabilities(ctx context.Context, start *internalv1.StartRun) error {
	v := s.State.View()
	m, plan, found := parts(v, start)
	if !found { // the leader's own state is up to date, except right after its election
		var err error
		if v, err = s.Node.View(ctx); err != nil {
			return err
		}
		m, plan, found = parts(v, start)
	}
	if v.Has(fsm.Level2) && !plan.GetReferenced() {
		start.CheckedPlan = &holdfastv1.Plan{
			PlanId: plan.GetPlanId(), DisplayName: plan.GetDisplayName(), Steps: plan.GetSteps(),
		}
	}
	if !found {
		return nil // the FSM returns the error
	}
	start.CheckedProvider = fsm.ProviderOf(m)
	provider, err := s.providers.Of(m)
	if err != nil {
		start.MissingForStep, start.MissingCapability = plan.GetSteps()[0].GetName(), why(err)
		return nil
	}
	if c, step := providers.Missing(provider, plan); c != "" {
		start.MissingForStep = step
		start.MissingCapability = fmt.Sprintf("provider %q lacks %s", s.providers.NameOf(m), c)
	}
	return nil
}

// parts returns the part of a machine that determines its provider, and the plan, which
// the caller must not change.
func parts(
	v *fsm.View, start *internalv1.StartRun,
) (m *holdfastv1.Machine, plan *holdfastv1.Plan, found bool) {
	provider, hasMachine := v.ProviderOf(start.GetMachineId())
	plan, hasPlan := v.SharedPlan(start.GetPlanId())
	m = &holdfastv1.Machine{
		MachineId: start.GetMachineId(), Spec: &holdfastv1.MachineSpec{Provider: provider},
	}
	return m, plan, hasMachine && hasPlan
}

// why returns the cause of a provider's error without the failed operation, which the
// refusal names.
func why(err error) string {
	var e *providers.Error
	if errors.As(err, &e) {
		return e.Err.Error()
	}
	return err.Error()
}
