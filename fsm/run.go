package fsm

import (
	"fmt"
	"iter"
	"maps"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/holdfast-metal/holdfast/fsm/internal/core"
	"github.com/holdfast-metal/holdfast/fsm/internal/events"
	"github.com/holdfast-metal/holdfast/fsm/internal/fleet"
	"github.com/holdfast-metal/holdfast/fsm/internal/lex"
	"github.com/holdfast-metal/holdfast/fsm/internal/lifecycle"
	"github.com/holdfast-metal/holdfast/fsm/internal/plans"
	"github.com/holdfast-metal/holdfast/fsm/internal/schema"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// byRequest returns the run of a request id.
func byRequest(s *core.State, machineID, requestID string) (*holdfastv1.Run, bool) {
	run, ok := s.Runs.Lookup(schema.RunsByRequest, schema.RequestKey(machineID, requestID))
	// An id with a slash may match the key of another machine.
	if !ok || run.GetMachineId() != machineID {
		return nil, false
	}
	return run, true
}

func runNotFound(id string) *Error {
	return refuse(NotFound, "RUN_NOT_FOUND", "run %q not found", id).With("run_id", id)
}

// CheckStartRun checks the parts of a start that need no state. It sets the canonical type
// and the default plan.
func CheckStartRun(c *internalv1.StartRun) *Error {
	if c.GetRequestId() == "" {
		return invalid("request_id", "is required: it makes a retry safe")
	}
	if len(c.GetRequestId()) > 128 {
		return invalid("request_id", "has %d bytes, at most 128 are allowed", len(c.GetRequestId()))
	}
	if c.GetType() == "" && c.GetPlanId() == "" {
		return invalid("type",
			"type and plan_id are both empty: name one of REPAVE, RMA, REBOOT, UPGRADE, NET_RECONFIG, or a plan")
	}
	if c.GetType() != "" {
		canonical, ok := plans.CanonicalType(c.GetType())
		if !ok {
			return invalid("type", "%q is not one of REPAVE, RMA, REBOOT, UPGRADE, NET_RECONFIG", c.GetType())
		}
		c.Type = canonical
	}
	if c.GetPlanId() == "" {
		c.PlanId = plans.DefaultID(c.GetType())
	}
	if c.GetMachineId() == "" {
		return invalid("machine_id", "is required")
	}
	if v := c.GetParams()["version"]; c.GetPlanId() == plans.DefaultID("UPGRADE") && v != "" &&
		!plans.VersionOK.MatchString(v) {
		return invalid("params.version", "%q is not a version of Kubernetes: want one like 1.31.2", v)
	}
	size := 0
	for k, v := range c.GetParams() {
		size += len(k) + len(v)
	}
	if size > plans.MaxStepPayload {
		return invalid("params", "have %d bytes, at most %d are allowed", size, plans.MaxStepPayload)
	}
	return nil
}

// startRun creates a run, or returns the existing run of the request id. The order of the
// checks is part of the contract (docs/clients.md, 002): a replay succeeds even if the
// machine is busy.
func startRun(t *core.Tx, c *internalv1.StartRun) (*holdfastv1.Run, *Error) {
	if err := CheckStartRun(c); err != nil {
		return nil, err
	}
	plan, ok := t.Plan(c.GetPlanId())
	if !ok {
		return nil, plans.NotFound(c.GetPlanId())
	}
	if run, ok := byRequest(t.State, c.GetMachineId(), c.GetRequestId()); ok {
		return withQueue(t.State, run, t.Decoded), sameRequest(run, c)
	}
	m, ok := t.Machines.Get(c.GetMachineId())
	if !ok {
		return nil, fleet.MachineNotFound(c.GetMachineId())
	}
	if t.Has(core.Level2) {
		if err := plans.CheckParams(plan, c.GetParams()); err != nil {
			return nil, err
		}
	}
	beside := plans.NonExclusive(plan)
	if err := startable(t, m, plan, c, beside); err != nil {
		return nil, err
	}
	if !lex.ValidName(c.GetRunId(), 64) { // with an empty id the machine would seem free
		return nil, invalid("run_id", "%q is not 1 to 64 letters, digits, '.', '_', '-' or ':'", c.GetRunId())
	}
	if t.Runs.Has(c.GetRunId()) {
		return nil, refuse(Aborted, ReasonIDTaken, "generated run id %q is in use", c.GetRunId())
	}
	run := newRun(c, plan)
	if err := checkImageArch(t, m, plan, run); err != nil {
		return nil, err
	}
	run.CreatedAt, run.WaitingSince, run.Principal = t.Now, t.Now, t.Command.GetPrincipal()
	run.MachinePhaseBefore, run.Beside = m.GetStatus().GetPhase(), beside
	if !beside {
		m.Status.ActiveRunId = run.GetRunId()
		fleet.MovePhase(t, m, holdfastv1.MachineStatus_PROVISIONING,
			fleet.Change{By: "run", Run: run.GetRunId(), Comment: "run started", Node: plans.NodeState(plan)})
		fleet.PutMachine(t, m)
	}
	if !plan.GetReferenced() {
		referenced := proto.CloneOf(plan)
		referenced.Referenced = true
		t.Plans.Put(referenced)
	}
	putRun(t, run, "run created")
	return withQueue(t.State, run, t.Decoded), nil
}

func startable(t *core.Tx, m *holdfastv1.Machine, plan *holdfastv1.Plan, c *internalv1.StartRun, beside bool) *Error {
	if m.GetStatus().GetPhase() == holdfastv1.MachineStatus_RETIRED {
		return refuse(FailedPrecondition, "MACHINE_RETIRED", "machine %q is RETIRED: no operations are allowed",
			m.GetMachineId())
	}
	if p := fleet.ProviderOf(m); p != c.GetCheckedProvider() {
		return refuse(Aborted, ReasonProviderChanged,
			"provider of machine %q changed to %q while the run was being started",
			m.GetMachineId(), p)
	}
	if p := c.GetCheckedPlan(); p != nil && !plan.GetReferenced() && !plans.Same(p, plan) {
		return refuse(Aborted, ReasonPlanChanged, "plan %q was replaced while the run was being started",
			plan.GetPlanId())
	}
	if missing := c.GetMissingCapability(); missing != "" {
		return refuse(FailedPrecondition, "CAPABILITY_MISSING", "step %q of plan %q cannot run on machine %q: %s",
			c.GetMissingForStep(), plan.GetPlanId(), m.GetMachineId(), missing).With("step", c.GetMissingForStep())
	}
	if beside {
		return consoleFree(t, m.GetMachineId())
	}
	if run := m.GetStatus().GetActiveRunId(); run != "" {
		return refuse(FailedPrecondition, ReasonActiveRun, "machine %q has the active run %s: wait for it or cancel it",
			m.GetMachineId(), run).
			With("run_id", run).With("machine_id", m.GetMachineId())
	}
	return nil
}

// sameRequest returns an error with the differences if a request id is used again with
// another body.
func sameRequest(run *holdfastv1.Run, c *internalv1.StartRun) *Error {
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
	return refuse(AlreadyExists, ReasonRequestConflict,
		"request_id %q of machine %q already started run %s with another request: %s",
		c.GetRequestId(), c.GetMachineId(), run.GetRunId(), strings.Join(diff, "; ")).With("run_id", run.GetRunId())
}

// newRun returns a run with all its steps WAITING, with their timeouts and retries.
func newRun(c *internalv1.StartRun, plan *holdfastv1.Plan) *holdfastv1.Run {
	run := &holdfastv1.Run{
		RunId:      c.GetRunId(),
		MachineId:  c.GetMachineId(),
		RequestId:  c.GetRequestId(),
		Type:       c.GetType(),
		PlanId:     plan.GetPlanId(),
		Phase:      holdfastv1.Run_PENDING,
		Params:     c.GetParams(),
		WaitingFor: "the executor",
	}
	for _, s := range plan.GetSteps() {
		st := &holdfastv1.StepStatus{Name: s.GetName(), State: holdfastv1.StepStatus_WAITING, Kind: plans.KindOf(s),
			TimeoutSeconds: s.GetTimeoutSeconds(), MaxRetries: c.GetDefaultMaxRetries()}
		if st.TimeoutSeconds == 0 {
			st.TimeoutSeconds = c.GetDefaultTimeoutSeconds()
			if d := c.GetDefaultInstallTimeoutSeconds(); d > 0 && installs(s) {
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

// installs reports whether a step boots an installer and waits for it. Servers take minutes
// to boot, and each stage of the installer may take as long.
func installs(s *holdfastv1.Step) bool { return s.GetRepave() != nil || s.GetRma().GetWipe() }

// cancelRun ends a pending run, or asks the executor to end a running one.
func cancelRun(t *core.Tx, c *internalv1.CancelRun) (*holdfastv1.Run, *Error) {
	run, ok := t.Runs.Get(c.GetRunId())
	switch {
	case !ok:
		return nil, runNotFound(c.GetRunId())
	case run.GetPhase() == holdfastv1.Run_CANCELED, run.GetCancelRequestedAt() != nil && !lifecycle.Ended(run):
		return run, nil
	case lifecycle.Ended(run):
		return nil, refuse(FailedPrecondition, ReasonRunFinished, "run %s has already %s",
			run.GetRunId(), run.GetPhase()).
			With("phase", run.GetPhase().String())
	}
	run.CancelRequestedAt, run.CancelReason = t.Now, c.GetReason()
	if run.GetObserved() {
		cancelObserved(t, run, c.GetReason())
		return run, nil
	}
	if run.GetPhase() == holdfastv1.Run_PENDING {
		finishRun(t, run, holdfastv1.Run_CANCELED, canceledError(run))
		return run, nil
	}
	run.WaitingFor, run.WaitingSince, run.NextActionAt = "the current attempt to stop", t.Now, t.Now
	putRun(t, run, "cancel requested")
	return run, nil
}

func canceledError(run *holdfastv1.Run) *holdfastv1.RunError {
	msg := "canceled"
	if run.GetCancelReason() != "" {
		msg += ": " + run.GetCancelReason()
	}
	return &holdfastv1.RunError{Reason: "Canceled", Message: msg, Step: run.GetCurrentStep()}
}

// putRun stores a run and adds the event of its transition.
func putRun(t *core.Tx, run *holdfastv1.Run, message string) {
	run.Revision, run.QueuePosition = t.Index, 0
	had, _ := t.Runs.Get(run.GetRunId())
	t.Runs.Put(run)
	events.AddEvent(t, run, message)
	if had.GetPhase() != run.GetPhase() {
		events.AddNews(t, runNews(run))
	}
}

// withQueue sets the fields that are computed on read.
func withQueue(s *core.State, run *holdfastv1.Run, c *plans.Cache) *holdfastv1.Run {
	if run.GetPhase() != holdfastv1.Run_PENDING {
		return run
	}
	plan, _ := c.Get(s.Plans, run.GetPlanId())
	run.QueuePosition = int32(1 + s.Runs.Count(schema.RunsPending,
		schema.OrderedTime(run.GetCreatedAt(), run.GetRunId())))
	if held := heldBy(s, plan, run); held != "" {
		run.WaitingFor = held
	}
	return run
}

// Run returns a run with its position in the queue.
func (v *View) Run(id string) (*holdfastv1.Run, bool) {
	run, ok := v.state.Runs.Get(id)
	if !ok {
		return nil, false
	}
	return withQueue(v.state, run, v.decoded), true
}

// RunByRequest returns the run of a request id.
func (v *View) RunByRequest(machineID, requestID string) (*holdfastv1.Run, bool) {
	return byRequest(v.state, machineID, requestID)
}

// Runs returns all runs, newest first, each with its key for the next page. If before is
// empty, it starts at the newest. Queue positions are omitted: see Run.
func (v *View) Runs(before string) iter.Seq2[string, *holdfastv1.Run] {
	return v.state.Runs.ScanBack(schema.RunsByTime, "", before)
}

// RunsByAge returns all runs, oldest first, without queue positions.
func (v *View) RunsByAge() iter.Seq[*holdfastv1.Run] {
	return runSeq(v.state.Runs.Scan(schema.RunsByTime, "", ""))
}

// MachineRuns returns the runs of one machine as Runs does.
func (v *View) MachineRuns(machineID, before string) iter.Seq2[string, *holdfastv1.Run] {
	return v.state.Runs.ScanBack(schema.RunsByMachine, machineID+"/", before)
}

// ActiveRuns returns the runs that have not ended, oldest first.
func (v *View) ActiveRuns() iter.Seq[*holdfastv1.Run] {
	return runSeq(v.state.Runs.Scan(schema.RunsActive, "", ""))
}

// UncompactedRuns returns the ended runs whose log is not compressed yet, oldest first.
func (v *View) UncompactedRuns() iter.Seq[*holdfastv1.Run] {
	return runSeq(v.state.Runs.Scan(schema.RunsUncompacted, "", ""))
}

func runSeq(seq iter.Seq2[string, *holdfastv1.Run]) iter.Seq[*holdfastv1.Run] {
	return func(yield func(*holdfastv1.Run) bool) {
		for _, r := range seq {
			if !yield(r) {
				return
			}
		}
	}
}
