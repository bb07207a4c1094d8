package runs

import (
	"fmt"
	"maps"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/holdfast-metal/holdfast/fsm/internal/access"
	"github.com/holdfast-metal/holdfast/fsm/internal/core"
	"github.com/holdfast-metal/holdfast/fsm/internal/fleet"
	"github.com/holdfast-metal/holdfast/fsm/internal/images"
	"github.com/holdfast-metal/holdfast/fsm/internal/lex"
	"github.com/holdfast-metal/holdfast/fsm/internal/lifecycle"
	"github.com/holdfast-metal/holdfast/fsm/internal/plans"
	"github.com/holdfast-metal/holdfast/fsm/internal/refusal"
	"github.com/holdfast-metal/holdfast/fsm/internal/shallow"
	"github.com/holdfast-metal/holdfast/proto/holdfast/stepkind"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// CheckStartRun checks the parts of a start that need no state. It sets the canonical type
// and the default plan.
func CheckStartRun(c *internalv1.StartRun) *refusal.Error {
	if c.GetRequestId() == "" {
		return refusal.InvalidField("request_id", "is required: it makes a retry safe")
	}
	if len(c.GetRequestId()) > 128 {
		return refusal.InvalidField("request_id", "has %d bytes, at most 128 are allowed", len(c.GetRequestId()))
	}
	if !lex.Trimmed(c.GetRequestId()) {
		return refusal.InvalidField("request_id", "%q has control characters, or a space at an end", c.GetRequestId())
	}
	if c.GetType() == "" && c.GetPlanId() == "" {
		return refusal.InvalidField("type",
			"type and plan_id are both empty: name one of REPAVE, RMA, REBOOT, UPGRADE, NET_RECONFIG, or a plan")
	}
	if c.GetType() != "" {
		canonical, ok := plans.CanonicalType(c.GetType())
		if !ok {
			return refusal.InvalidField("type", "%q is not one of REPAVE, RMA, REBOOT, UPGRADE, NET_RECONFIG",
				c.GetType())
		}
		c.Type = canonical
	}
	if c.GetPlanId() == "" {
		c.PlanId = plans.DefaultID(c.GetType())
	}
	if c.GetMachineId() == "" {
		return refusal.InvalidField("machine_id", "is required")
	}
	size := 0
	for k, v := range c.GetParams() {
		size += len(k) + len(v)
	}
	if size > plans.MaxStepPayload {
		return refusal.InvalidField("params", "have %d bytes, at most %d are allowed", size, plans.MaxStepPayload)
	}
	return nil
}

// StartRun creates a run, or returns the existing run of the request id. The order of the
// checks is part of the contract (docs/clients.md, 002): a replay succeeds even if the
// machine is busy.
func StartRun(t *core.Tx, c *internalv1.StartRun) (*holdfastv1.Run, *refusal.Error) {
	if err := CheckStartRun(c); err != nil {
		return nil, err
	}
	plan, ok := t.Plans.Get(c.GetPlanId())
	if !ok {
		return nil, plans.NotFound(c.GetPlanId())
	}
	c.Params = plans.Complete(plan, c.GetParams())
	if run, ok := ByRequest(t.State, c.GetMachineId(), c.GetRequestId()); ok {
		if access.Scoped(t) && !access.Sees(t, run.GetPool()) { // the machine had another owner
			return nil, refusal.New(refusal.AlreadyExists, refusal.ReasonRequestConflict,
				"request_id %q of machine %q cannot be used: use another one", c.GetRequestId(), c.GetMachineId())
		}
		return withQueue(t.State, run), sameRequest(run, c)
	}
	m, ok := t.Machines.Get(c.GetMachineId())
	if !ok {
		return nil, fleet.MachineNotFound(c.GetMachineId())
	}
	if err := checkParams(t, plan, c.GetParams()); err != nil {
		return nil, err
	}
	concurrent := plans.Concurrent(plan)
	if err := startable(t, m, plan, c, concurrent); err != nil {
		return nil, err
	}
	if !lex.ValidName(c.GetRunId(), 64) { // with an empty id the machine would seem free
		return nil, refusal.InvalidField("run_id", "%q is not 1 to 64 letters, digits, '.', '_', '-' or ':'",
			c.GetRunId())
	}
	if t.Runs.Has(c.GetRunId()) {
		return nil, refusal.New(refusal.Aborted, refusal.ReasonIDTaken, "generated run id %q is in use", c.GetRunId())
	}
	run := newRun(c, plan)
	if plans.NeedsImage(plan) {
		run.Image = images.OfRun(c.GetParams(), m)
	}
	if err := checkImageArch(t, m, plan, run); err != nil {
		return nil, err
	}
	run.CreatedAt, run.Principal = t.Now, t.Command.GetPrincipal()
	Await(t, run, &holdfastv1.Wait{Kind: holdfastv1.Wait_QUEUE})
	run.MachinePhaseBefore, run.Concurrent, run.Pool = m.GetStatus().GetPhase(), concurrent, m.GetSpec().GetPool()
	if !concurrent {
		m = shallow.Machine(m)
		m.Status.ActiveRunId = run.GetRunId()
		fleet.MovePhase(t, m, holdfastv1.MachineStatus_PROVISIONING,
			fleet.Change{By: "run", Run: run.GetRunId(), Comment: "run started: " + run.GetEffect(),
				Node: plans.NodeState(plan), Pending: true})
		fleet.PutMachine(t, m)
	}
	if !plan.GetReferenced() {
		referenced := proto.CloneOf(plan)
		referenced.Referenced = true
		t.Plans.Put(referenced)
	}
	PutRun(t, run, "run created")
	return withQueue(t.State, run), nil
}

func startable(
	t *core.Tx, m *holdfastv1.Machine, plan *holdfastv1.Plan, c *internalv1.StartRun, concurrent bool,
) *refusal.Error {
	if m.GetStatus().GetPhase() == holdfastv1.MachineStatus_RETIRED {
		return refusal.New(refusal.FailedPrecondition, "MACHINE_RETIRED",
			"machine %q is RETIRED: no operations are allowed",
			m.GetMachineId())
	}
	if p := fleet.ProviderOf(m); p != c.GetCheckedProvider() {
		return refusal.New(refusal.Aborted, refusal.ReasonProviderChanged,
			"provider of machine %q changed to %q while the run was being started",
			m.GetMachineId(), p)
	}
	if p := c.GetCheckedPlan(); p != nil && !plan.GetReferenced() && !plans.Same(p, plan) {
		return refusal.New(refusal.Aborted, refusal.ReasonPlanChanged,
			"plan %q was replaced while the run was being started",
			plan.GetPlanId())
	}
	if missing := c.GetMissingCapability(); missing != "" {
		return refusal.New(refusal.FailedPrecondition, "CAPABILITY_MISSING",
			"step %q of plan %q cannot run on machine %q: %s",
			c.GetMissingForStep(), plan.GetPlanId(), m.GetMachineId(), missing).With("step", c.GetMissingForStep())
	}
	if plans.NeedsNode(plan) && lifecycle.InNoCluster(m, c.GetParams()["cluster_ref"]) {
		return refusal.New(refusal.FailedPrecondition, "NOT_IN_CLUSTER",
			"machine %q has no node, and plan %q needs one: its condition %s is %s: join it with a plan with a step join, or "+
				"name its cluster with: holdfast machine update %s --cluster NAME", m.GetMachineId(), plan.GetPlanId(),
			lifecycle.InCluster, lifecycle.ClusterText(m), m.GetMachineId())
	}
	if plans.EffectOf(plan, c.GetParams()).Destroys {
		if err := fleet.CheckIdentity(t.State, m); err != nil {
			return err
		}
	}
	if concurrent {
		return consoleFree(t, m.GetMachineId())
	}
	if run := m.GetStatus().GetActiveRunId(); run != "" {
		return refusal.New(refusal.FailedPrecondition, refusal.ReasonActiveRun,
			"machine %q has the active run %s: wait for it or cancel it",
			m.GetMachineId(), run).
			With("run_id", run).With("machine_id", m.GetMachineId())
	}
	return nil
}

// sameRequest returns an error with the differences if a request id is used again with
// another body.
func sameRequest(run *holdfastv1.Run, c *internalv1.StartRun) *refusal.Error {
	var diff []string
	if run.GetType() != c.GetType() {
		diff = append(diff, fmt.Sprintf("type is %q, was %q", c.GetType(), run.GetType()))
	}
	if run.GetPlanId() != c.GetPlanId() {
		diff = append(diff, fmt.Sprintf("plan_id is %q, was %q", c.GetPlanId(), run.GetPlanId()))
	}
	if !maps.Equal(run.GetParams(), c.GetParams()) {
		diff = append(diff, "params differ")
	}
	if len(diff) == 0 {
		return nil
	}
	return refusal.New(refusal.AlreadyExists, refusal.ReasonRequestConflict,
		"request_id %q of machine %q already started run %s with another request: %s",
		c.GetRequestId(), c.GetMachineId(), run.GetRunId(), strings.Join(diff, "; ")).With("run_id", run.GetRunId())
}

// newRun returns a run with all its steps WAITING, with their timeouts and retries.
func newRun(c *internalv1.StartRun, plan *holdfastv1.Plan) *holdfastv1.Run {
	run := &holdfastv1.Run{
		RunId:     c.GetRunId(),
		MachineId: c.GetMachineId(),
		RequestId: c.GetRequestId(),
		Type:      c.GetType(),
		PlanId:    plan.GetPlanId(),
		Phase:     holdfastv1.Run_PENDING,
		Params:    c.GetParams(),
		Effect:    plans.EffectOf(plan, c.GetParams()).Text,
	}
	room := make([]holdfastv1.StepStatus, len(plan.GetSteps())) // one allocation for all
	run.Steps = make([]*holdfastv1.StepStatus, 0, len(room))
	for i, s := range plan.GetSteps() {
		st := &room[i]
		st.Name, st.State, st.Kind = s.GetName(), holdfastv1.StepStatus_WAITING, stepkind.Name(s)
		st.TimeoutSeconds, st.MaxRetries = s.GetTimeoutSeconds(), c.GetDefaultMaxRetries()
		if st.TimeoutSeconds == 0 {
			st.TimeoutSeconds = c.GetDefaultTimeoutSeconds()
			if d := c.GetDefaultInstallTimeoutSeconds(); d > 0 && stepInstalls(s, c.GetParams()) {
				st.TimeoutSeconds = d
			}
		}
		if s.MaxRetries != nil {
			st.MaxRetries = s.GetMaxRetries()
		}
		run.Steps = append(run.Steps, st)
	}
	run.CurrentStep = run.GetSteps()[0].GetName()
	return run
}

// stepInstalls reports whether a step boots an installer and waits for it. Servers take minutes
// to boot, and each stage of the installer may take as long.
func stepInstalls(s *holdfastv1.Step, params map[string]string) bool {
	return stepkind.Of(s).GetInstalls() && plans.StepEffect(s, params).Destroys
}

// checkParams refuses parameters of a run, or of the runs of a wave.
func checkParams(t *core.Tx, plan *holdfastv1.Plan, params map[string]string) *refusal.Error {
	if err := plans.CheckParams(plan, params); err != nil {
		return err
	}
	return fleet.CheckEndpoint(t, "params.new_ssh_endpoint", params["new_ssh_endpoint"])
}
