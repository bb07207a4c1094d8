package startrun

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/internal/nearest"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
	"github.com/holdfast-metal/holdfast/providers"
	"github.com/holdfast-metal/holdfast/server/internal/clusterref"
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

// Prepare completes a command with a new run id, the defaults and the capability that the run
// lacks. The error is the refusal of a command that the FSM would refuse in any state.
func (s *Preparer) Prepare(ctx context.Context, start *internalv1.StartRun) error {
	return s.PrepareOf(ctx, start, nil)
}

// PrepareOf is Prepare for a plan that is not stored, or for the stored one if plan is nil.
func (s *Preparer) PrepareOf(ctx context.Context, start *internalv1.StartRun, plan *holdfastv1.Plan) error {
	start.RunId = "run-" + edge.RandomHex(6)
	start.DefaultTimeoutSeconds = int32(s.cfg.StepTimeout.Seconds())
	start.DefaultMaxRetries = s.cfg.MaxRetries
	start.DefaultInstallTimeoutSeconds = int32(s.cfg.InstallTimeout.Seconds())
	if err := fsm.CheckStartRun(start); err != nil {
		return err
	}
	if bad := s.DeniedURLs("", &internalv1.StartRun{Params: start.GetParams()}); len(bad) > 0 {
		return fsm.Invalid(bad)
	}
	return s.checkCapabilities(ctx, start, plan)
}

// checkCapabilities adds the capability that the machine's provider lacks for the plan, if
// any.
func (s *Preparer) checkCapabilities(ctx context.Context, start *internalv1.StartRun, given *holdfastv1.Plan) error {
	v := s.State.View()
	m, plan, found := parts(v, start)
	if !found { // the leader's own state is up to date, except right after its election
		var err error
		if v, err = s.Cluster.View(ctx); err != nil {
			return err
		}
		m, plan, found = parts(v, start)
	}
	if given != nil {
		plan, found = given, m.GetMachineId() != ""
	}
	if !plan.GetReferenced() {
		start.CheckedPlan = fsm.WrittenPlan(plan)
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

// checkImage adds the image that the caller names, if the run needs it and it does not exist. Only
// the peer knows whether the provider installs images of the cluster or its own. An image that is
// deleted later fails the step, as before.
func (s *Preparer) checkImage(ctx context.Context, start *internalv1.StartRun, p providers.Provider,
	plan *holdfastv1.Plan) error {
	name := start.GetParams()["image"]
	i := slices.IndexFunc(plan.GetSteps(), func(s *holdfastv1.Step) bool {
		return s.GetRepave() != nil && s.GetRepave().GetImage() == ""
	})
	if boots, ok := p.(interface{ BootsInstaller() bool }); name == "" || i < 0 || !ok || !boots.BootsInstaller() {
		return nil
	}
	if _, there := s.State.View().Image(name); there {
		return nil
	}
	v, err := s.Cluster.View(ctx) // it may have been added a moment ago, on an earlier leader
	if err != nil {
		return err
	}
	if _, there := v.Image(name); there {
		return nil
	}
	start.MissingForStep = plan.GetSteps()[i].GetName()
	start.MissingCapability = fmt.Sprintf("there is no image %q", name)
	var names []string
	for img := range v.Images("") {
		names = append(names, img.GetName())
	}
	if like := nearest.Of(name, names); like != "" {
		start.MissingCapability += fmt.Sprintf(": did you mean %q?", like)
	}
	start.MissingCapability += ": see: holdfast image list"
	return nil
}

// checkCluster adds the cluster that the caller names, if a step joins or verifies it there and
// it is not registered. Only the peer knows whether the provider joins registered clusters or its
// own. A drain needs no registered cluster: without one it runs a script on the host. This only
// spares the caller a typo: a cluster that is deleted later fails the step.
func (s *Preparer) checkCluster(ctx context.Context, start *internalv1.StartRun, p providers.Provider,
	plan *holdfastv1.Plan) error {
	ref := start.GetParams()["cluster_ref"]
	i := slices.IndexFunc(plan.GetSteps(), func(s *holdfastv1.Step) bool {
		return s.GetJoin() != nil && s.GetJoin().GetClusterRef() == "" ||
			s.GetVerify() != nil && s.GetVerify().GetClusterRef() == ""
	})
	if ref == "" || i < 0 || !clusterref.Uses(p) || clusterref.Registered(s.State.View(), ref) {
		return nil
	}
	v, err := s.Cluster.View(ctx) // it may have been registered a moment ago, on an earlier leader
	if err != nil || clusterref.Registered(v, ref) {
		return err
	}
	m, _ := v.Machine(start.GetMachineId())
	start.MissingForStep = plan.GetSteps()[i].GetName()
	start.MissingCapability = clusterref.Problem(v, ref, m.GetSpec().GetPool())
	return nil
}

// Cause returns the cause of a provider's error without the failed operation, which the
// refusal names.
func Cause(err error) string {
	if e, ok := errors.AsType[*providers.Error](err); ok {
		return e.Err.Error()
	}
	return err.Error()
}
