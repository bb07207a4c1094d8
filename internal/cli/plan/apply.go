package plan

import (
	"cmp"
	"context"

	"github.com/spf13/cobra"

	"github.com/holdfast-metal/holdfast/client"
	"github.com/holdfast-metal/holdfast/internal/cli/app"
	"github.com/holdfast-metal/holdfast/internal/cli/kinds"
	"github.com/holdfast-metal/holdfast/internal/cli/output"
	"github.com/holdfast-metal/holdfast/internal/cli/render"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

func planApply(a *app.App) *cobra.Command {
	var o output.Flags
	var in output.Inputs
	var replace, dryRun bool
	cmd := &cobra.Command{
		Use: "apply -f FILE", DisableFlagsInUseLine: true, Args: app.Exactly(),
		Short: "Store plans from a file",
		Long: `Store plans from a file, YAML or JSON with the names of the API: one plan, several separated by ---, or a
list. An unknown key is an error that names the key and its line.

Storing the same plan again is fine. A plan that a run uses never changes: give the new version a new id.
Other plans can be replaced with --replace.`,
		Example: `  holdfast plan apply -f plan.yaml
  holdfast plan apply -f plan.yaml --dry-run
  holdfast plan get plan/repave-join -o yaml | sed s,plan/repave-join,plan-mine-v1, | holdfast plan apply -f -`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return storePlans(a, cmd, &o, &in, "apply",
				&holdfastv1.CreatePlanRequest{Replace: replace, ValidateOnly: dryRun})
		},
	}
	o.Register(cmd, output.Shapes(kinds.Plan())...)
	in.Register(cmd.Flags(), "plans")
	cmd.Flags().BoolVar(&replace, "replace", false, "replace a plan that no run uses")
	cmd.Flags().BoolVar(&dryRun, "dry-run", false,
		"check it on the server and store nothing (like holdfast plan validate)")
	return cmd
}

func planValidate(a *app.App) *cobra.Command {
	var o output.Flags
	var in output.Inputs
	var machine, stored string
	var values []string
	cmd := &cobra.Command{
		Use: "validate (FILE | --plan PLAN --dry-run MACHINE)", DisableFlagsInUseLine: true,
		Args:  app.Between(0, 1, "FILE"),
		Short: "Validate plans on the server without storing them",
		Long: `Validate plans on the server without storing them. Each error is one line with its field. FILE can also be passed with -f, as for plan apply.

With --dry-run MACHINE it also checks which steps would pass on that machine now: the BMC and its account, the host, the image and its
files, the rule for the disk, the cluster. All checks only read. The exit code is 4 if a step would fail. Results that depend on an
earlier step, or cannot be checked from here, are unknown. --plan checks a stored plan instead of FILE.`,
		Example: `  holdfast plan validate plan.yaml
  holdfast plan get plan/repave-join -o yaml | holdfast plan validate -
  holdfast plan validate plan.yaml --dry-run m-123
  holdfast plan validate --plan plan/repave-join --dry-run m-123 --param image=debian-13`,
		RunE: func(cmd *cobra.Command, args []string) error {
			with, err := app.Params(values)
			switch {
			case err != nil:
				return err
			case machine == "" && (stored != "" || len(values) > 0):
				return app.Usagef("%s: --plan and --param go with --dry-run MACHINE", cmd.CommandPath())
			case stored != "" && (len(args) > 0 || in.Given()):
				return app.Usagef("%s: give either FILE or --plan", cmd.CommandPath())
			case stored != "":
				return probePlan(a, cmd, &o,
					&holdfastv1.ProbePlanRequest{MachineId: machine, PlanId: stored, Params: with})
			case len(args) > 0 && in.Given():
				return app.Usagef("%s: give FILE once: as an argument, or with -f", cmd.CommandPath())
			case len(args) > 0:
				in.Names = args
			case !in.Given():
				return app.Usagef("%s: FILE is missing: usage: %s", cmd.CommandPath(), cmd.UseLine())
			}
			if machine == "" {
				return storePlans(a, cmd, &o, &in, "validate",
					&holdfastv1.CreatePlanRequest{Replace: true, ValidateOnly: true})
			}
			plans, err := output.ReadDocuments(a, &in, kinds.Plan())
			if err != nil {
				return err
			}
			if len(plans) != 1 {
				return app.Usagef("%s: %s has %d plans: --dry-run takes one", cmd.CommandPath(), &in, len(plans))
			}
			return probePlan(a, cmd, &o, &holdfastv1.ProbePlanRequest{MachineId: machine, Plan: plans[0], Params: with})
		},
	}
	o.Register(cmd, append(output.Shapes(kinds.Plan()), output.Shapes(output.Kind[*holdfastv1.ProbePlanResponse]{})...)...)
	in.Register(cmd.Flags(), "plans")
	cmd.Flags().StringVar(&machine, "dry-run", "",
		"check which steps would pass on this `machine`, without running any")
	cmd.Flags().StringVar(&stored, "plan", "", "stored `plan` to check instead of FILE (with --dry-run)")
	cmd.Flags().StringArrayVar(&values, "param", nil, "parameter `key=value` of the run (with --dry-run); repeatable")
	a.CompleteFlag(cmd, "dry-run", kinds.Machine().Names)
	a.CompleteFlag(cmd, "plan", kinds.Plan().Names)
	return cmd
}

// storePlans sends each plan of the files with a request.
func storePlans(a *app.App,
	cmd *cobra.Command, o *output.Flags, in *output.Inputs, verb string, r *holdfastv1.CreatePlanRequest,
) error {
	if !in.Given() {
		return app.Usagef("%s: -f FILE is missing: usage: %s", cmd.CommandPath(), cmd.UseLine())
	}
	plans, err := output.ReadDocuments(a, in, kinds.Plan())
	if err != nil {
		return err
	}
	return a.Online(func(ctx context.Context, c *client.Client, _ []string) error {
		return output.StoreEach(a, o, kinds.Plan(), plans, verb+" plans", func(p *holdfastv1.Plan) (*holdfastv1.Plan, error) {
			r.Plan = p
			done, err := c.Plans().CreatePlan(ctx, r)
			if err == nil && r.GetValidateOnly() {
				a.Note("plan %s is valid; nothing was stored", done.GetPlanId())
			}
			return done, app.Failed(err, "%s plan %s", verb, cmp.Or(p.GetPlanId(), "without plan_id"))
		})
	})(cmd, nil)
}

// probePlan prints whether each step of a plan would pass on a machine. The exit code is 4 if
// one would fail.
func probePlan(a *app.App, cmd *cobra.Command, o *output.Flags, r *holdfastv1.ProbePlanRequest) error {
	return a.Online(func(ctx context.Context, c *client.Client, _ []string) error {
		name := cmp.Or(r.GetPlanId(), r.GetPlan().GetPlanId())
		resp, err := c.Plans().ProbePlan(ctx, r)
		if err != nil {
			return app.Failed(err, "probe plan %s on %s", name, r.GetMachineId())
		}
		if o.Structured() {
			err = output.PrintOne(a, o, output.Kind[*holdfastv1.ProbePlanResponse]{}, resp)
		} else {
			err = output.PrintTable(a, o, probeTable(resp.GetProbes()))
		}
		if err != nil {
			return err
		}
		count := map[holdfastv1.Probe_Verdict]int{}
		for _, p := range resp.GetProbes() {
			count[p.GetVerdict()]++
		}
		if bad := count[holdfastv1.Probe_FAILS]; bad > 0 {
			return app.Exitf(app.ExitConflict, "plan %s would fail on %s: %d of %d checks failed", name,
				r.GetMachineId(), bad, len(resp.GetProbes()))
		}
		a.Note("plan %s: no problem found on %s (%d checks, %d of them inconclusive); nothing was "+
			"changed", name, r.GetMachineId(), len(resp.GetProbes()),
			count[holdfastv1.Probe_UNKNOWN]+count[holdfastv1.Probe_VERDICT_UNSPECIFIED])
		return nil
	})(cmd, nil)
}

func probeTable(probes []*holdfastv1.Probe) *render.Table {
	t := render.NewTable("STEP", "KIND", "WHAT", "VERDICT", "SEEN")
	for _, p := range probes {
		shown := render.T("ok", render.Green)
		switch p.GetVerdict() {
		case holdfastv1.Probe_FAILS:
			shown = render.T("FAILS", render.Red)
		case holdfastv1.Probe_UNKNOWN, holdfastv1.Probe_VERDICT_UNSPECIFIED:
			shown = render.T("unknown", render.Yellow)
		}
		t.Row(p.GetStep(), p.GetKind(), p.GetWhat(), shown, p.GetMessage())
	}
	return t
}
