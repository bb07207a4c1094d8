package cli

import (
	"context"
	"maps"
	"regexp"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/holdfast-metal/holdfast/client"
	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/internal/cli/app"
	"github.com/holdfast-metal/holdfast/internal/cli/kinds"
	"github.com/holdfast-metal/holdfast/internal/cli/output"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// takesFile matches the usage of flags that take a path.
var takesFile = regexp.MustCompile(`\b(file|files|directory|FILE)\b`)

// completeFlags completes the flags of all commands that have no completion of their own. A shell
// offers files only for flags that take a path.
func completeFlags(a *app.App, cmd *cobra.Command) {
	values := flagValues(a, cmd)
	complete := func(f *pflag.Flag) {
		if _, has := cmd.GetFlagCompletionFunc(f.Name); has || f.Value.Type() == "bool" {
			return
		}
		fn, known := values[f.Name]
		switch {
		case known:
		case takesFile.MatchString(f.Usage):
			return
		default:
			fn = cobra.NoFileCompletions
		}
		_ = cmd.RegisterFlagCompletionFunc(f.Name, fn) // the flag exists and has none
	}
	cmd.LocalFlags().VisitAll(complete)
	for _, sub := range cmd.Commands() {
		completeFlags(a, sub)
	}
}

// flagValues returns the completion of flags, by name.
func flagValues(a *app.App, cmd *cobra.Command) map[string]cobra.CompletionFunc {
	one := func(values app.Completer, more cobra.ShellCompDirective) cobra.CompletionFunc {
		complete := a.Complete(values)
		return func(cmd *cobra.Command, _ []string, part string) ([]cobra.Completion, cobra.ShellCompDirective) {
			all, directive := complete(cmd, nil, part)
			return all, directive | more
		}
	}
	all := map[string]cobra.CompletionFunc{
		"pool": one(kinds.Pool().Names, 0), "plan": one(kinds.Plan().Names, 0), "workflow": one(kinds.Plan().Names, 0),
		"label-columns": one(labelKeys(""), 0), "labels": one(labelKeys("="), cobra.ShellCompDirectiveNoSpace),
		"param": one(paramNames(cmd), cobra.ShellCompDirectiveNoSpace), "sha256": cobra.NoFileCompletions,
	}
	if cmd.HasParent() {
		if md := resources()[cmd.Parent().Name()]; md != nil {
			all["filter"] = func(_ *cobra.Command, _ []string, part string) ([]cobra.Completion, cobra.ShellCompDirective) {
				return output.FilterWords(md, part), cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
			}
		}
	}
	machine := resources()["machine"]
	all["selector"] = func(_ *cobra.Command, _ []string, part string) ([]cobra.Completion, cobra.ShellCompDirective) {
		return output.FilterWords(machine, part), cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
	}
	return all
}

// labelKeys completes the keys of labels of machines, each with a suffix.
func labelKeys(suffix string) app.Completer {
	return func(ctx context.Context, c *client.Client) []string {
		machines, _, err := kinds.Machine().First(ctx, c, output.PageSize)
		if err != nil {
			return nil
		}
		keys := map[string]bool{}
		for _, m := range machines {
			for key := range m.GetLabels() {
				keys[key+suffix] = true
			}
		}
		return slices.Sorted(maps.Keys(keys))
	}
}

// paramNames completes the names of the parameters that the plan of a command reads, and the values
// of those that have few.
func paramNames(cmd *cobra.Command) app.Completer {
	return func(ctx context.Context, c *client.Client) []string {
		id, _ := cmd.Flags().GetString("plan")
		if kind, err := cmd.Flags().GetString("type"); err == nil && id == "" {
			id = fsm.DefaultPlanID(app.EnumName(kind))
		}
		plan, err := kinds.GetPlan(ctx, c, id)
		if err != nil {
			return nil
		}
		var words []string
		for _, p := range fsm.PlanParams(plan) {
			values := p.GetChoices()
			switch {
			case p.GetType() == holdfastv1.Param_BOOL:
				values = []string{"false", "true"}
			case len(values) == 0:
				values = []string{""}
			}
			for _, v := range values {
				words = append(words, p.GetName()+"="+v)
			}
		}
		return words
	}
}
