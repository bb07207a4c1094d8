package plan

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/holdfast-metal/holdfast/client"
	"github.com/holdfast-metal/holdfast/internal/cli/app"
	"github.com/holdfast-metal/holdfast/internal/cli/kinds"
	"github.com/holdfast-metal/holdfast/internal/cli/output"
	"github.com/holdfast-metal/holdfast/internal/describe"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// Command returns the commands of plans, with that which edits one.
func Command(a *app.App, edit *cobra.Command) *cobra.Command {
	return app.Parent(&cobra.Command{
		Use: "plan", Aliases: []string{"plans", "p"},
		Short: "Manage the plans that runs execute",
		Example: `  holdfast plan list
  holdfast plan apply -f plan.yaml
  holdfast run start m-123 --type REPAVE --plan plan-repave-ubuntu-2204-v1`,
	}, planList(a), planGet(a), planApply(a), edit, planValidate(a), planRelease(a), planDelete(a))
}

func planList(a *app.App) *cobra.Command {
	return output.ListCommand(a, output.Lister[*holdfastv1.Plan]{
		Short: "List plans by id", Example: "  holdfast plan list\n  holdfast plan list -o wide",
		Kind: kinds.Plan(),
	})
}

func planGet(a *app.App) *cobra.Command {
	return output.GetCommand(a, output.Getter[*holdfastv1.Plan]{
		Short:   "Show a plan and its steps",
		Example: "  holdfast plan get plan/repave-join\n  holdfast plan get plan/repave-join -o yaml > plan.yaml",
		Kind:    kinds.Plan(),
		Get: func(ctx context.Context, c *client.Client, id string) (*holdfastv1.Plan, error) {
			p, err := kinds.GetPlan(ctx, c, id)
			if b := p.GetBrake(); b != nil {
				a.Note("held: %s on %s, of its last %s (%s). New runs wait until: holdfast plan release %s",
					b.GetFailure(), describe.Number(b.GetMachines(), "machine"), kinds.RunCount(int(b.GetRuns())),
					b.GetLastError(), p.GetPlanId())
			}
			for _, b := range p.GetHeld() {
				a.Note("held in pool %s: %s. New runs there wait until: holdfast plan release %s --pool %s", b.GetPool(),
					b.GetFailure(), p.GetPlanId(), b.GetPool())
			}
			return p, err
		},
		More: kinds.PlanTables,
	})
}

func planRelease(a *app.App) *cobra.Command {
	var o output.Flags
	var most int32
	var pool string
	cmd := &cobra.Command{
		Use: "release PLAN", Args: app.Exactly("PLAN"), ValidArgsFunction: a.Complete(kinds.Plan().Names),
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
	cmd.RunE = a.Online(func(ctx context.Context, c *client.Client, args []string) error {
		r := &holdfastv1.ReleasePlanRequest{PlanId: args[0]}
		if cmd.Flags().Changed("max-active") {
			r.MaxActive = &most
		}
		r.Pool = pool
		p, err := c.Plans().ReleasePlan(ctx, r)
		if err != nil {
			return app.Failed(err, "release plan %s", args[0])
		}
		return output.PrintOne(a, &o, kinds.Plan(), p, kinds.PlanTables(p)...)
	})
	o.Register(cmd, output.Shapes(kinds.Plan())...)
	cmd.Flags().Int32Var(&most, "max-active", 0,
		"maximum number of active runs of the plan per image, instead of the ramp; 0: the ramp again")
	cmd.Flags().StringVar(&pool, "pool", "",
		"release the runs of this pool alone (default: of all pools of the caller, and of the whole fleet)")
	return cmd
}

func planDelete(a *app.App) *cobra.Command {
	return output.EachCommand(a, output.Each[*holdfastv1.Plan]{
		Kind:    kinds.Plan(),
		Short:   "Delete plans that no run refers to and that are not built in",
		Example: "  holdfast plan delete plan-repave-ubuntu-2204-v1",
		Do: func(ctx context.Context, c *client.Client, id string) error {
			_, err := c.Plans().DeletePlan(ctx, &holdfastv1.DeletePlanRequest{PlanId: id})
			return err
		},
	})
}
