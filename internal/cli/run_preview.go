package cli

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast-metal/holdfast/client"
	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/internal/describe"
	"github.com/holdfast-metal/holdfast/proto/holdfast/stepkind"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// preview prints the machines on which a command would start runs, and the effects of the plan.
// It starts none.
func (a *app) preview(ctx context.Context, c *client.Client, o *output, req *holdfastv1.StartRunRequest,
	machines []*holdfastv1.Machine) error {
	plan, err := planOf(ctx, c, req)
	if err != nil {
		return err
	}
	if err := printList(a, o, machineKind(), machines); err != nil {
		return err
	}
	a.note("dry run: %s: %s: %s", machineCount(machines), plan.GetPlanId(), effects(plan))
	return nil
}

// planOf returns the plan of a run that a request would start.
func planOf(ctx context.Context, c *client.Client, req *holdfastv1.StartRunRequest) (*holdfastv1.Plan, error) {
	id := cmp.Or(req.GetPlanId(), fsm.DefaultPlanID(enumName(req.GetType())))
	if id == "" {
		return nil, usagef("--type: %q is not one of REPAVE, REBOOT, RMA, UPGRADE, NET_RECONFIG", req.GetType())
	}
	return getPlan(ctx, c, id)
}

// allowRun blocks until the operator has confirmed a destructive run on one machine. Other runs
// need no confirmation.
func (a *app) allowRun(ctx context.Context, c *client.Client, path string, ok consent,
	req *holdfastv1.StartRunRequest) error {
	if ok.yes {
		return nil
	}
	plan, err := planOf(ctx, c, req)
	if err != nil || !stepkind.Destructive(plan) {
		return err
	}
	m, err := getMachine(ctx, c, req.GetMachineId())
	if err != nil {
		return err
	}
	return ok.obtain(ctx, a, path, loss(plan, []*holdfastv1.Machine{m}), m.GetMachineId())
}

// loss describes a destructive run on machines.
func loss(plan *holdfastv1.Plan, machines []*holdfastv1.Machine) string {
	which := machineCount(machines)
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
	return fmt.Sprintf("%s: %s: %s", which, plan.GetPlanId(), effects(plan))
}

// machineCount returns the number of machines, and of those in service or with an active run.
func machineCount(machines []*holdfastv1.Machine) string {
	text := describe.Number(len(machines), "machine")
	if states := machineStates(machines); states != "" {
		text += ", " + states
	}
	return text
}

// inService reports whether a machine is in service, by its phase or by its node.
func inService(m *holdfastv1.Machine) bool {
	return m.GetStatus().GetPhase() == holdfastv1.MachineStatus_IN_SERVICE ||
		m.GetStatus().GetEffectiveState() == holdfastv1.EffectiveState_IN_SERVICE
}

// machineStates counts the machines in service and those with an active run. It returns "" if there
// are none.
func machineStates(machines []*holdfastv1.Machine) string {
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

// effects returns what a plan does to a machine and the data on it.
func effects(p *holdfastv1.Plan) string {
	var destroys []string
	interrupts := false
	for _, s := range p.GetSteps() {
		k := stepkind.Of(s)
		if text := k.GetEffect(); k.GetDestroys() && !slices.Contains(destroys, text) {
			destroys = append(destroys, text)
		}
		interrupts = interrupts || k.GetInterrupts()
	}
	switch {
	case len(destroys) > 0:
		return strings.Join(destroys, "; ")
	case interrupts:
		return "interrupts the host"
	}
	return "does not interrupt the host"
}
