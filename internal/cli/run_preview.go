package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/holdfast-metal/holdfast/client"
	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/proto/holdfast/stepkind"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// preview prints the machines on which a command would start runs, and the effects of the plan.
// It starts none.
func (a *app) preview(ctx context.Context, c *client.Client, o *output, req *holdfastv1.StartRunRequest,
	machines []*holdfastv1.Machine) error {
	id := req.GetPlanId()
	if id == "" {
		id = fsm.DefaultPlanID(strings.ToUpper(strings.ReplaceAll(req.GetType(), "-", "_")))
	}
	plan, err := c.Plans().GetPlan(ctx, &holdfastv1.GetPlanRequest{PlanId: id})
	if err != nil {
		return failed(err, "get plan %s", id)
	}
	if err := printList(a, o, machineKind(), machines); err != nil {
		return err
	}
	a.note("dry run: %s: %s: %s", machineCount(machines), plan.GetPlanId(), effects(plan))
	return nil
}

// machineCount returns the number of machines, and of those in service or with an active run.
func machineCount(machines []*holdfastv1.Machine) string {
	serving, busy := 0, 0
	for _, m := range machines {
		if m.GetStatus().GetEffectiveState() == holdfastv1.EffectiveState_IN_SERVICE {
			serving++
		}
		if m.GetStatus().GetActiveRunId() != "" {
			busy++
		}
	}
	text := "1 machine"
	if len(machines) != 1 {
		text = fmt.Sprintf("%d machines", len(machines))
	}
	if serving > 0 {
		text += fmt.Sprintf(", %d IN_SERVICE", serving)
	}
	if busy > 0 {
		text += fmt.Sprintf(", %d with an active run, on which none can start", busy)
	}
	return text
}

// effects returns what a plan does to a machine and the data on it.
func effects(p *holdfastv1.Plan) string {
	var destroys, interrupts bool
	for _, s := range p.GetSteps() {
		k := stepkind.Of(s)
		destroys, interrupts = destroys || k.GetDestroys(), interrupts || k.GetInterrupts()
	}
	switch {
	case destroys:
		return "erases disks"
	case interrupts:
		return "interrupts the host"
	}
	return "does not interrupt the host"
}
