package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/holdfast-metal/holdfast/client"
	"github.com/holdfast-metal/holdfast/internal/describe"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// planCommand returns the commands of plans, with that which edits one.
func planCommand(a *app, edit *cobra.Command) *cobra.Command {
	return parent(&cobra.Command{
		Use: "plan", Aliases: []string{"plans", "p"},
		Short: "Manage the plans that runs execute",
		Example: `  holdfast plan list
  holdfast plan apply -f plan.yaml
  holdfast run start m-123 --type REPAVE --plan plan-repave-ubuntu-2204-v1`,
	}, planList(a), planGet(a), planApply(a), edit, planValidate(a), planRelease(a), planDelete(a))
}

func planList(a *app) *cobra.Command {
	return listCommand(a, lister[*holdfastv1.Plan]{
		short: "List plans by id", example: "  holdfast plan list\n  holdfast plan list -o wide",
		kind: planKind(),
	})
}

func planGet(a *app) *cobra.Command {
	return getCommand(a, getter[*holdfastv1.Plan]{
		short:   "Show a plan and its steps",
		example: "  holdfast plan get plan/repave-join\n  holdfast plan get plan/repave-join -o yaml > plan.yaml",
		kind:    planKind(),
		get: func(ctx context.Context, c *client.Client, id string) (*holdfastv1.Plan, error) {
			p, err := getPlan(ctx, c, id)
			if b := p.GetBrake(); b != nil {
				a.note("held: %s on %s, of its last %s (%s). New runs wait until: holdfast plan release %s",
					b.GetFailure(), describe.Number(b.GetMachines(), "machine"), runCount(int(b.GetRuns())),
					b.GetLastError(), p.GetPlanId())
			}
			for _, b := range p.GetHeld() {
				a.note("held in pool %s: %s. New runs there wait until: holdfast plan release %s --pool %s", b.GetPool(),
					b.GetFailure(), p.GetPlanId(), b.GetPool())
			}
			return p, err
		},
		more: planTables,
	})
}

func planRelease(a *app) *cobra.Command {
	var o output
	var most int32
	var pool string
	cmd := &cobra.Command{
		Use: "release PLAN", Args: exactly("PLAN"), ValidArgsFunction: a.complete(planKind().names),
		Short: "Release a held plan, so that its runs start again",
		Long: `Release a held plan, so that its runs start again. A plan is held if its last runs failed the same way on at least five
machines of a pool, and on at least half of them: further runs in this pool wait, so that a bad image or script does not
reach the whole fleet. If the runs of several pools fail, all wait. First read one of the runs (holdfast run list --filter 'phase = FAILED'), and cancel those that should not start.

A plan that erases disks, retires machines or changes their network starts with 5 machines at once per image, and one more
for each run that succeeds. --max-active replaces that ramp by a fixed limit; 0 restores the ramp.`,
		Example: "  holdfast plan release plan/repave-join\n" +
			"  holdfast plan release plan/repave-join --pool gpu\n" +
			"  holdfast plan release plan/repave-join --max-active 200",
	}
	cmd.RunE = a.online(func(ctx context.Context, c *client.Client, args []string) error {
		r := &holdfastv1.ReleasePlanRequest{PlanId: args[0]}
		if cmd.Flags().Changed("max-active") {
			r.MaxActive = &most
		}
		r.Pool = pool
		p, err := c.Plans().ReleasePlan(ctx, r)
		if err != nil {
			return failed(err, "release plan %s", args[0])
		}
		return printOne(a, &o, planKind(), p, planTables(p)...)
	})
	o.register(cmd, shapes(planKind())...)
	cmd.Flags().Int32Var(&most, "max-active", 0,
		"maximum number of active runs of the plan per image, instead of the ramp; 0: the ramp again")
	cmd.Flags().StringVar(&pool, "pool", "",
		"release the runs of this pool alone (default: of all pools of the caller, and of the whole fleet)")
	return cmd
}

func planDelete(a *app) *cobra.Command {
	return eachCommand(a, each[*holdfastv1.Plan]{
		kind:    planKind(),
		short:   "Delete plans that no run refers to and that are not built in",
		example: "  holdfast plan delete plan-repave-ubuntu-2204-v1",
		do: func(ctx context.Context, c *client.Client, id string) error {
			_, err := c.Plans().DeletePlan(ctx, &holdfastv1.DeletePlanRequest{PlanId: id})
			return err
		},
	})
}
