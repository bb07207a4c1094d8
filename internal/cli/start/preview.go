package start

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast-metal/holdfast/client"
	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/internal/cli/app"
	"github.com/holdfast-metal/holdfast/internal/cli/fields"
	"github.com/holdfast-metal/holdfast/internal/cli/kinds"
	"github.com/holdfast-metal/holdfast/internal/cli/output"
	"github.com/holdfast-metal/holdfast/internal/cli/prompt"
	"github.com/holdfast-metal/holdfast/internal/describe"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// Preview prints the machines on which a command would start runs, and the effects of the plan, and
// makes the checks of the start. It starts none.
func Preview(ctx context.Context, a *app.App, c *client.Client, o *output.Flags, req *holdfastv1.StartRunRequest,
	machines []*holdfastv1.Machine, wave *holdfastv1.StartWaveRequest) error {
	plan, err := PlanOf(ctx, c, req)
	if err != nil {
		return err
	}
	var refused error
	if wave == nil {
		req.ValidateOnly = true
		if _, err := c.Runs().StartRun(ctx, req); err != nil {
			return app.Failed(err, "start run on machine %s", req.GetMachineId())
		}
	} else {
		wave.ValidateOnly = true
		w, err := c.Waves().StartWave(ctx, wave)
		if err != nil {
			return app.Failed(err, "start a wave")
		}
		refused = RefusedStarts(w)
	}
	if err := output.PrintList(a, o, kinds.Machine(), machines); err != nil {
		return err
	}
	a.Note("dry run: %s: %s: %s", MachineCount(machines), plan.GetPlanId(), Effects(plan, req.GetParams()))
	return refused
}

// RefusedStarts returns an error with the machines of a wave whose runs would be refused, or nil.
func RefusedStarts(w *holdfastv1.Wave) error {
	var names []string
	first := ""
	for _, m := range w.GetMachines() {
		if m.GetState() == holdfastv1.WaveMachine_REFUSED {
			names, first = append(names, m.GetMachineId()), cmp.Or(first, m.GetError())
		}
	}
	if len(names) == 0 {
		return nil
	}
	return app.Exitf(app.ExitConflict, "%d of %s would be refused: %s: the first because %s", len(names),
		describe.Number(len(w.GetMachines()), "machine"), AtMostTen(names), first)
}

// PlanOf returns the plan of a run that a request would start.
func PlanOf(ctx context.Context, c *client.Client, req *holdfastv1.StartRunRequest) (*holdfastv1.Plan, error) {
	id := cmp.Or(req.GetPlanId(), fsm.DefaultPlanID(app.EnumName(req.GetType())))
	if id == "" {
		return nil, app.Usagef("--type: %q is not one of REPAVE, REBOOT, RMA, UPGRADE, NET_RECONFIG", req.GetType())
	}
	return kinds.GetPlan(ctx, c, id)
}

// AllowRun blocks until the operator has confirmed a run on one machine that destroys data, or
// interrupts a machine in service. Other runs need no confirmation.
func AllowRun(ctx context.Context, a *app.App, c *client.Client, path string, ok prompt.Consent,
	req *holdfastv1.StartRunRequest) error {
	if ok.Yes {
		return nil
	}
	plan, err := PlanOf(ctx, c, req)
	if err != nil {
		return err
	}
	if e := fsm.EffectOf(plan, req.GetParams()); !e.Grave && !e.Interrupts {
		return nil
	}
	m, err := kinds.GetMachine(ctx, c, req.GetMachineId())
	if err != nil || !Asks(plan, req.GetParams(), m) {
		return err
	}
	return ok.Obtain(ctx, a, path, loss(plan, req.GetParams(), []*holdfastv1.Machine{m}), m.GetMachineId())
}

// Asks reports whether a run of a plan needs a confirmation: it destroys data or takes a machine
// out, or it interrupts a machine that is in service.
func Asks(plan *holdfastv1.Plan, params map[string]string, machines ...*holdfastv1.Machine) bool {
	e := fsm.EffectOf(plan, params)
	return e.Grave || e.Interrupts && slices.ContainsFunc(machines, inService)
}

// loss describes a run on machines that needs a confirmation.
func loss(plan *holdfastv1.Plan, params map[string]string, machines []*holdfastv1.Machine) string {
	which := MachineCount(machines)
	if len(machines) == 1 {
		s := machines[0].GetStatus()
		state := s.GetEffectiveState()
		if inService(machines[0]) {
			state = holdfastv1.EffectiveState_IN_SERVICE
		}
		which = fmt.Sprintf("machine %s, %s", machines[0].GetMachineId(), state)
		if s.GetActiveRunId() != "" {
			which += " with an active run"
		}
	}
	return fmt.Sprintf("%s: %s: %s", which, plan.GetPlanId(), Effects(plan, params))
}

// MachineCount returns the number of machines, and of those in service or with an active run.
func MachineCount(machines []*holdfastv1.Machine) string {
	text := describe.Number(len(machines), "machine")
	if states := MachineStates(machines); states != "" {
		text += ", " + states
	}
	return text
}

// inService reports whether a machine is in service, by its phase or by its node.
func inService(m *holdfastv1.Machine) bool {
	return m.GetStatus().GetPhase() == holdfastv1.MachineStatus_IN_SERVICE ||
		m.GetStatus().GetEffectiveState() == holdfastv1.EffectiveState_IN_SERVICE
}

// MachineStates counts the machines in service and those with an active run. It returns "" if there
// are none.
func MachineStates(machines []*holdfastv1.Machine) string {
	serving, busy := 0, 0
	for _, m := range machines {
		if inService(m) {
			serving++
		}
		if m.GetStatus().GetActiveRunId() != "" {
			busy++
		}
	}
	var text []string
	if serving > 0 {
		text = append(text, fmt.Sprintf("%d IN_SERVICE", serving))
	}
	if busy > 0 {
		text = append(text, fmt.Sprintf("%d with an active run", busy))
	}
	return strings.Join(text, ", ")
}

// Effects returns the effect of a plan on a machine and its data.
func Effects(p *holdfastv1.Plan, params map[string]string) string {
	return fsm.EffectOf(p, params).Text
}

// AtMostTen returns the first ten names in natural order, and the number of the others.
func AtMostTen(names []string) string {
	const most = 10
	slices.SortFunc(names, fields.Natural)
	if n := len(names); n > most {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], " "), n-most)
	}
	return strings.Join(names, " ")
}
