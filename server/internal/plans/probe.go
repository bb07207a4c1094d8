package plans

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/internal/describe"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
	"github.com/holdfast-metal/holdfast/providers"
	"github.com/holdfast-metal/holdfast/server/auth"
	"github.com/holdfast-metal/holdfast/server/internal/edge"
	"github.com/holdfast-metal/holdfast/server/internal/request"
	"github.com/holdfast-metal/holdfast/server/internal/scope"
	"github.com/holdfast-metal/holdfast/server/internal/startrun"
)

// probeTime is the time limit for all reads of a ProbePlan together. They run
// concurrently.
const probeTime = 25 * time.Second

// ProbePlan checks whether the steps of a plan would succeed on a machine. It only reads,
// and has no effect on hardware.
func (s *Service) ProbePlan(
	ctx context.Context, r *holdfastv1.ProbePlanRequest,
) (*holdfastv1.ProbePlanResponse, error) {
	v, err := request.View(ctx, s.Cluster.View, "machine_id", r.GetMachineId())
	if err != nil {
		return nil, err
	}
	m, ok := scope.Machine(ctx, v, r.GetMachineId())
	if !ok {
		return nil, request.NotFound("MACHINE_NOT_FOUND", "machine", r.GetMachineId())
	}
	plan := r.GetPlan()
	switch {
	case plan != nil && r.GetPlanId() != "":
		return nil, request.Invalid("plan_id", "is set, and so is plan: set only one of them")
	case plan != nil:
		if err := request.Violations(fsm.ValidatePlan(plan)); err != nil {
			return nil, err
		}
	default:
		if plan, ok = v.Plan(r.GetPlanId()); !ok {
			return nil, request.NotFound("PLAN_NOT_FOUND", "plan", r.GetPlanId())
		}
	}
	if err := fsm.CheckParams(plan, r.GetParams()); err != nil {
		return nil, err
	}
	if err := v.CheckClusters(auth.From(ctx).GetPools(), m, plan, r.GetParams()); err != nil {
		return nil, err
	}
	p := &prober{
		cfg:  s.cfg,
		peer: s.Peer,
		v:    v,
		m:    m,
		run:  &holdfastv1.Run{Params: fsm.CompleteParams(plan, r.GetParams())},
		resp: &holdfastv1.ProbePlanResponse{},
	}
	if err := p.checkStart(ctx, plan, r.GetPlan()); err != nil {
		return nil, err
	}
	if p.provider, err = s.cfg.Providers.Of(m); err != nil {
		p.add(nil, "provider", holdfastv1.Probe_FAILS, "%s", startrun.Cause(err))
		return p.resp, nil
	}
	p.read(ctx, plan)
	for _, step := range plan.GetSteps() {
		p.step(ctx, step)
	}
	return p.resp, nil
}

// prober probes one plan on one machine.
type prober struct {
	cfg      Config
	peer     *edge.Peer
	v        *fsm.View
	m        *holdfastv1.Machine
	run      *holdfastv1.Run // the run that would start
	provider providers.Provider
	resp     *holdfastv1.ProbePlanResponse

	power, boot, media, host reading
	clusters                 map[string]reading
	installs                 bool // an earlier step writes the disk, so its current contents do not matter
}

// reading is the result of one read. If text is empty and err is nil, there was no read.
type reading struct {
	text    string
	err     error
	unknown bool
}

// add adds a result to the response.
func (p *prober) add(s *holdfastv1.Step, what string, v holdfastv1.Probe_Verdict, format string, args ...any) {
	probe := &holdfastv1.Probe{Step: s.GetName(), What: what, Verdict: v, Message: fmt.Sprintf(format, args...)}
	if s != nil {
		probe.Kind = fsm.KindOf(s)
	}
	p.resp.Probes = append(p.resp.Probes, probe)
}

// checkStart makes the checks of StartRun.
func (p *prober) checkStart(ctx context.Context, plan, given *holdfastv1.Plan) error {
	switch st := p.m.GetStatus(); {
	case st.GetPhase() == holdfastv1.MachineStatus_RETIRED:
		p.add(nil, "machine", holdfastv1.Probe_FAILS, "it is retired: no run starts on it")
	case st.GetActiveRunId() != "":
		p.add(nil, "machine", holdfastv1.Probe_FAILS,
			"run %s is active, and a machine has one at a time: wait for it, or cancel it", st.GetActiveRunId())
	default:
		p.add(nil, "machine", holdfastv1.Probe_OK, "%s, no active run", st.GetPhase())
	}
	if err := p.tryStart(ctx, plan, given); err != nil {
		return err
	}
	if b := fsm.BrakeOf(plan, p.m.GetSpec().GetPool()); b != nil {
		p.add(nil, "plan", holdfastv1.Probe_FAILS,
			"it is held, because its runs failed with %s on %s: holdfast plan release %s",
			b.GetFailure(), describe.Number(b.GetMachines(), "machine"), plan.GetPlanId())
	}
	return nil
}

// tryStart adds the refusal that a StartRun would have now, unless it is about the state of the
// machine, which is a result of its own, or about a capability, which its step has. A plan that the
// caller has given is stored before, in the same try.
func (p *prober) tryStart(ctx context.Context, plan, given *holdfastv1.Plan) error {
	start := &internalv1.StartRun{MachineId: p.m.GetMachineId(), PlanId: plan.GetPlanId(), Params: p.run.GetParams(),
		RequestId: "validate-" + edge.RandomHex(6)}
	if err := p.cfg.Starts.PrepareOf(ctx, start, given); err != nil {
		return err
	}
	c := auth.Command(ctx)
	c.Op = &internalv1.Command_StartRun{StartRun: start}
	var before []*internalv1.Command
	if given != nil {
		store := auth.Command(ctx)
		store.Op = &internalv1.Command_CreatePlan{CreatePlan: &internalv1.CreatePlan{Plan: given, Replace: true}}
		before = append(before, store)
	}
	_, err := edge.Try[*holdfastv1.Run](ctx, p.peer, c, before...)
	refusal, ok := errors.AsType[*fsm.Error](err)
	switch {
	case !ok:
		return err
	case slices.Contains([]string{"MACHINE_RETIRED", fsm.ReasonActiveRun, "CAPABILITY_MISSING"}, refusal.Reason):
	default:
		p.add(nil, "start", holdfastv1.Probe_FAILS, "%s", refusal.Message)
	}
	return nil
}

// clusterOf returns the cluster of a step, or "" if the step has none.
func (p *prober) clusterOf(s *holdfastv1.Step) string {
	var own string
	switch k := s.GetKind().(type) {
	case *holdfastv1.Step_Join:
		own = k.Join.GetClusterRef()
	case *holdfastv1.Step_Verify:
		own = k.Verify.GetClusterRef()
	default:
		return ""
	}
	for _, ref := range []string{own, p.run.GetParams()["cluster_ref"], p.m.GetSpec().GetTargetClusterRef()} {
		if ref != "" {
			return ref
		}
	}
	return "default"
}
