package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/holdfast-metal/holdfast/client"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

func (a *app) plan() *cobra.Command {
	return parent(&cobra.Command{
		Use: "plan", Aliases: []string{"plans", "p"},
		Short: "The recipes that runs execute",
		Example: `  holdfast plan list
  holdfast plan apply -f plan.yaml
  holdfast run start m-123 --type REPAVE --plan plan-repave-ubuntu-2204-v1`,
	}, a.planList(), a.planGet(), a.planApply(), a.planValidate(), a.planRelease(), a.planDelete())
}

func (a *app) planList() *cobra.Command {
	var l listing
	cmd := &cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Args: exactly(),
		Short: "List plans by id",
		Example: `  holdfast plan list
  holdfast plan list -o wide`,
		RunE: a.online(func(ctx context.Context, c *client.Client, _ []string) error {
			items, more, err := collect(l.limit, func(size int32, token string) ([]*holdfastv1.Plan, string, error) {
				r, err := c.Plans().ListPlans(ctx, &holdfastv1.ListPlansRequest{PageSize: size, PageToken: token})
				return r.GetPlans(), r.GetNextPageToken(), err
			})
			if err != nil {
				return failed(err, "list plans")
			}
			if more {
				a.note("note: there are more than these %d: raise --limit", l.limit)
			}
			return printList(a, &l.output, planKind(), items)
		}),
	}
	l.register(cmd, "")
	return cmd
}

func (a *app) planGet() *cobra.Command {
	var o output
	cmd := &cobra.Command{
		Use: "get PLAN", Args: exactly("PLAN"), ValidArgsFunction: a.complete(planIDs),
		Short: "Show a plan and its steps",
		Example: `  holdfast plan get plan/repave-join
  holdfast plan get plan/repave-join -o yaml > plan.yaml`,
		RunE: a.online(func(ctx context.Context, c *client.Client, args []string) error {
			p, err := c.Plans().GetPlan(ctx, &holdfastv1.GetPlanRequest{PlanId: args[0]})
			if err != nil {
				return failed(err, "get plan %s", args[0])
			}
			if b := p.GetBrake(); b != nil {
				a.note("held: %s on %d machines, of its last %d runs (%s). New runs wait until: holdfast plan release %s", b.GetFailure(), b.GetMachines(), b.GetRuns(), b.GetLastError(), p.GetPlanId())
			}
			return printOne(a, &o, planKind(), p, planSteps(p))
		}),
	}
	o.register(cmd)
	return cmd
}

func (a *app) planRelease() *cobra.Command {
	var o output
	cmd := &cobra.Command{
		Use: "release PLAN", Args: exactly("PLAN"), ValidArgsFunction: a.complete(planIDs),
		Short: "Let the runs of a plan that is held begin again",
		Long: `Let the runs of a plan that is held begin again. A plan is held when its last runs failed the same way on five machines or
more, and on half of them at least: its further runs wait, so that a bad image or a bad script does not reach the whole
fleet. Look at one of the runs first (holdfast run list --filter 'phase = FAILED'), and cancel those that should not begin.`,
		Example: "  holdfast plan release plan/repave-join",
		RunE: a.online(func(ctx context.Context, c *client.Client, args []string) error {
			p, err := c.Plans().ReleasePlan(ctx, &holdfastv1.ReleasePlanRequest{PlanId: args[0]})
			if err != nil {
				return failed(err, "release plan %s", args[0])
			}
			return printOne(a, &o, planKind(), p, planSteps(p))
		}),
	}
	o.register(cmd)
	return cmd
}

func (a *app) planDelete() *cobra.Command {
	return &cobra.Command{
		Use: "delete PLAN...", Args: atLeast("PLAN"), ValidArgsFunction: a.complete(planIDs, planIDs),
		Short:   "Delete plans that no run refers to and that are not built in",
		Example: "  holdfast plan delete plan-repave-ubuntu-2204-v1",
		RunE: a.online(func(ctx context.Context, c *client.Client, args []string) error {
			var errs []error
			for _, id := range args {
				if _, err := c.Plans().DeletePlan(ctx, &holdfastv1.DeletePlanRequest{PlanId: id}); err != nil {
					errs = append(errs, failed(err, "delete plan %s", id))
					continue
				}
				a.note("deleted plan %s", id)
			}
			return several(errs, len(args), "delete plans")
		}),
	}
}
