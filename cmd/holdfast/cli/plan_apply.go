package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/holdfast-metal/holdfast/client"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

func (a *app) planApply() *cobra.Command {
	var o output
	var file string
	var replace, dryRun bool
	cmd := &cobra.Command{
		Use: "apply -f FILE", DisableFlagsInUseLine: true, Args: exactly(),
		Short: "Store plans from a file",
		Long: `Store plans from a file, YAML or JSON with the names of the API: one plan, several with --- between
them, or a list. A key that the API does not have is an error that names the key and its line.

The same plan again is fine. A plan that a run refers to never changes: give the new version a new id.
One that no run refers to is replaced with --replace.`,
		Example: `  holdfast plan apply -f plan.yaml
  holdfast plan apply -f plan.yaml --dry-run
  holdfast plan get plan/repave-join -o yaml | sed s,plan/repave-join,plan-mine-v1, | holdfast plan apply -f -`,
		RunE: a.storePlans(&o, &file, func() (bool, bool) { return replace, dryRun }, "apply"),
	}
	o.register(cmd)
	cmd.Flags().StringVarP(&file, "file", "f", "", `file with plans, YAML or JSON ("-": standard input)`)
	cmd.Flags().BoolVar(&replace, "replace", false, "replace a plan that no run refers to")
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "let the server check it and store nothing (holdfast plan validate)")
	return cmd
}

func (a *app) planValidate() *cobra.Command {
	var o output
	var file string
	cmd := &cobra.Command{
		Use: "validate FILE", DisableFlagsInUseLine: true, Args: between(0, 1, "FILE"),
		Short:   "Let the server check plans and store nothing",
		Long:    "Let the server check plans and store nothing. What is wrong is listed with its field, a line each. FILE can be given with -f too, as to plan apply.",
		Example: "  holdfast plan validate plan.yaml\n  holdfast plan get plan/repave-join -o yaml | holdfast plan validate -",
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case len(args) > 0 && file != "":
				return usagef("%s: give FILE once: as an argument, or with -f", cmd.CommandPath())
			case len(args) > 0:
				file = args[0]
			case file == "":
				return usagef("%s: FILE is missing: usage: %s", cmd.CommandPath(), cmd.UseLine())
			}
			return a.storePlans(&o, &file, func() (bool, bool) { return true, true }, "validate")(cmd, nil)
		},
	}
	o.register(cmd)
	cmd.Flags().StringVarP(&file, "file", "f", "", `file with plans, YAML or JSON ("-": standard input)`)
	return cmd
}

func (a *app) storePlans(o *output, file *string, how func() (replace, validateOnly bool), verb string) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		if *file == "" {
			return usagef("%s: -f FILE is missing: usage: %s", cmd.CommandPath(), cmd.UseLine())
		}
		plans, err := readDocuments(a, *file, "plans", func() *holdfastv1.Plan { return &holdfastv1.Plan{} })
		if err != nil {
			return err
		}
		replace, validateOnly := how()
		return a.online(func(ctx context.Context, c *client.Client, _ []string) error {
			done := make([]*holdfastv1.Plan, len(plans))
			errs := make([]error, len(plans))
			for i, p := range plans {
				done[i], errs[i] = c.Plans().CreatePlan(ctx, &holdfastv1.CreatePlanRequest{Plan: p, Replace: replace, ValidateOnly: validateOnly})
				errs[i] = failed(errs[i], "%s plan %s", verb, first(p.GetPlanId(), "without plan_id"))
				if errs[i] == nil && validateOnly {
					a.note("plan %s is valid; nothing was stored", done[i].GetPlanId())
				}
			}
			return printDone(a, o, planKind(), done, errs, verb+" plans")
		})(cmd, args)
	}
}
