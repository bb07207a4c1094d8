package ui

import (
	"net/url"
	"slices"
	"strings"

	"github.com/google/uuid"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfast-metal/holdfast/fsm"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/server/ui/internal/display"
)

// runQuestion returns the confirmation page for a run: the choice of a plan, then the
// effects of its steps.
func runQuestion(v *visit, form url.Values) (actBody, error) {
	b := actBody{Kind: "run", Form: form, Request: form.Get("request")}
	var err error
	if b.Machine, err = v.theMachine(); err != nil {
		return b, err
	}
	id := b.Machine.GetMachineId()
	b.Subject, b.Back = id, display.MachinePath(id)
	plans, err := v.read.plans.ListPlans(v.ctx, &holdfastv1.ListPlansRequest{PageSize: pageSize})
	if err != nil {
		return b, err
	}
	b.Plans = plans.GetPlans()
	slices.SortStableFunc(b.Plans, func(x, y *holdfastv1.Plan) int { return planRank(x) - planRank(y) })
	i := slices.IndexFunc(b.Plans, func(p *holdfastv1.Plan) bool { return p.GetPlanId() == form.Get("plan") })
	if i < 0 {
		return b, nil
	}
	b.Plan, b.Steps, b.Submit = b.Plans[i], display.PlanSteps(b.Plans[i]), "Start the run"
	if b.Request == "" {
		b.Request = "ui-" + uuid.NewString()
	}
	interrupts := false
	for _, s := range b.Steps {
		b.Grave, interrupts = b.Grave || s.Destroys, interrupts || s.Interrupts
	}
	switch {
	case b.Grave:
		b.Typed = id
		b.Happens = append(b.Happens, "All data on "+id+" will be lost.")
	case interrupts:
		b.Happens = append(b.Happens, "Workloads on "+id+" are interrupted.")
	}
	s := b.Machine.GetStatus()
	if s.GetPhase() == holdfastv1.MachineStatus_IN_SERVICE && (b.Grave || interrupts) {
		b.Happens = append(b.Happens, id+" is in service.")
	}
	if run := s.GetActiveRunId(); run != "" {
		b.Happens = append(b.Happens,
			id+" has the active run "+run+": another run is refused until that run has ended.")
	}
	if b.Plan.GetBrake() != nil {
		b.Happens = append(b.Happens, "This plan is held by its brake: the run waits until the brake is released.")
	}
	return b, nil
}

// planRank sorts plans of users first, then built-in plans that are usually started
// directly, then those with a single operation.
func planRank(p *holdfastv1.Plan) int {
	switch {
	case !p.GetBuiltIn():
		return 0
	case len(p.GetSteps()) > 1 || typeOf(p.GetPlanId()) != "":
		return 1
	}
	return 2
}

// typeOf returns the run type whose default plan this is, or "".
func typeOf(plan string) string {
	for _, t := range []string{"REPAVE", "RMA", "REBOOT", "UPGRADE", "NET_RECONFIG"} {
		if fsm.DefaultPlanID(t) == plan {
			return t
		}
	}
	return ""
}

func startRun(v *visit, b actBody) (string, error) {
	if b.Plan == nil {
		return "", status.Errorf(codes.InvalidArgument, "there is no plan %q: choose one", b.Value("plan"))
	}
	params, err := readParams(b.Value("params"))
	if err != nil {
		return "", err
	}
	run, err := v.write.runs.StartRun(v.ctx, &holdfastv1.StartRunRequest{
		RequestId: b.Request,
		MachineId: b.Machine.GetMachineId(),
		Type:      typeOf(b.Plan.GetPlanId()),
		PlanId:    b.Plan.GetPlanId(),
		Params:    params,
	})
	return display.RunPath(run.GetRunId()), err
}

// readParams parses one key=value per line.
func readParams(text string) (map[string]string, error) {
	params := map[string]string{}
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		key, value, ok := strings.Cut(line, "=")
		if key = strings.TrimSpace(key); !ok || key == "" {
			return nil, status.Errorf(codes.InvalidArgument,
				"params: %q is not key=value, such as image=ubuntu-24.04", line)
		}
		if _, twice := params[key]; twice {
			return nil, status.Errorf(codes.InvalidArgument, "params: %s is set twice", key)
		}
		params[key] = strings.TrimSpace(value)
	}
	return params, nil
}
