package startrun

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-metal/holdfast/fsm"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
	"github.com/holdfast-metal/holdfast/providers"
	"github.com/holdfast-metal/holdfast/server/internal/edge"
)

// Config has the defaults of steps that do not set them.
type Config struct {
	StepTimeout    time.Duration
	InstallTimeout time.Duration // of steps that install
	MaxRetries     int32
}

// Preparer prepares commands on one peer.
type Preparer struct {
	*edge.Peer
	cfg       Config
	providers *providers.Set
}

// New returns the preparer of a peer.
func New(peer *edge.Peer, cfg Config, set *providers.Set) *Preparer {
	return &Preparer{Peer: peer, cfg: cfg, providers: set}
}

// Prepare completes a command with a new run id, the defaults and what the run lacks.
// The error is the refusal of a command that the FSM would refuse in any state.
func (s *Preparer) Prepare(ctx context.Context, start *internalv1.StartRun) error {
	start.RunId = "run-" + edge.RandomHex(6)
	start.DefaultTimeoutSeconds = int32(s.cfg.StepTimeout.Seconds())
	start.DefaultMaxRetries = s.cfg.MaxRetries
	start.DefaultInstallTimeoutSeconds = int32(s.cfg.InstallTimeout.Seconds())
	if err := fsm.CheckStartRun(start); err != nil {
		return err
	}
	return s.checkCapabilities(ctx, start)
}

// checkCapabilities adds the capability that the machine's provider lacks for the plan, if
// any.
func (s *Preparer) checkCapabilities(ctx context.Context, start *internalv1.StartRun) error {
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
		start.MissingForStep, start.MissingCapability = plan.GetSteps()[0].GetName(), Cause(err)
		return nil
	}
	if c, step := providers.Missing(provider, plan); c != "" {
		start.MissingForStep = step
		start.MissingCapability = fmt.Sprintf("provider %q lacks %s", s.providers.NameOf(m), c)
		return nil
	}
	if err := s.checkImage(ctx, start, provider, plan); err != nil || start.GetMissingCapability() != "" {
		return err
	}
	return s.checkCluster(ctx, start, provider, plan)
}

// parts returns the part of a machine that determines its provider, and the plan, which
// the caller must not change.
func parts(
	v *fsm.View, start *internalv1.StartRun,
) (m *holdfastv1.Machine, plan *holdfastv1.Plan, found bool) {
	provider, hasMachine := v.ProviderOf(start.GetMachineId())
	plan, hasPlan := v.Plan(start.GetPlanId())
	m = &holdfastv1.Machine{
		MachineId: start.GetMachineId(), Spec: &holdfastv1.MachineSpec{Provider: provider},
	}
	return m, plan, hasMachine && hasPlan
}

// Cause returns the cause of a provider's error without the failed operation, which the
// refusal names.
func Cause(err error) string {
	var e *providers.Error
	if errors.As(err, &e) {
		return e.Err.Error()
	}
	return err.Error()
}
