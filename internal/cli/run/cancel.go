package run

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/holdfast-metal/holdfast/client"
	"github.com/holdfast-metal/holdfast/internal/cli/app"
	"github.com/holdfast-metal/holdfast/internal/cli/kinds"
	"github.com/holdfast-metal/holdfast/internal/cli/output"
	"github.com/holdfast-metal/holdfast/internal/cli/prompt"
	"github.com/holdfast-metal/holdfast/internal/cli/start"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

func runCancel(a *app.App) *cobra.Command {
	var o output.Flags
	var why, filter string
	var wait start.WaitFlag
	var ok prompt.Consent
	cmd := &cobra.Command{
		Use: "cancel (RUN... | --filter FILTER)", DisableFlagsInUseLine: true, Args: cobra.ArbitraryArgs,
		ValidArgsFunction: a.Complete(kinds.Run().Names),
		Short:             "Cancel active runs",
		Long: `Cancel active runs. A waiting run ends at once, and its machine stays as it was. A running one ends when its step can be
stopped; its machine goes to MAINTENANCE, and 'machine issues' has what is known of its disk. Canceling a canceled run is no error. The id of a machine stands for its last run. --filter cancels
all active runs that match.

The command asks for confirmation: the given id of one run, or the number of runs. Without a terminal it requires --yes.
--dry-run prints the runs and cancels none.`,
		Example: `  holdfast run cancel run-789 --reason "wrong rack" --wait
  holdfast run cancel --filter 'request_id = "wave-7d0f"' --reason "wrong image"`,
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if (len(args) == 0) == (filter == "") {
			return app.Usagef("%s: give either RUN or --filter: usage: %s", cmd.CommandPath(), cmd.UseLine())
		}
		return a.Online(func(ctx context.Context, c *client.Client, args []string) error {
			if ok.Given() && filter == "" {
				return cancelAll(ctx, a, c, &o, args, why, wait)
			}
			runs, err := toCancel(ctx, a, c, args, filter)
			if err != nil {
				return err
			}
			if len(runs) == 0 {
				a.Note("no active run matches %q", filter)
				return nil
			}
			found := app.Mapped(runs, (*holdfastv1.Run).GetRunId)
			if filter != "" {
				args = found
			}
			active := slices.DeleteFunc(runs, func(r *holdfastv1.Run) bool { return r.GetFinishedAt() != nil })
			if ok.DryRun {
				a.Note("dry run: %s", cancelLoss(active))
				return output.PrintList(a, &o, kinds.Run(), active)
			}
			if len(active) > 0 { // the server says of the others that they have ended
				if err := ok.Obtain(ctx, a, cmd.CommandPath(), cancelLoss(active), prompt.Word(args)); err != nil {
					return err
				}
			}
			return cancelAll(ctx, a, c, &o, found, why, wait)
		})(cmd, args)
	}
	o.Register(cmd, kinds.Started()...)
	wait.Register(cmd, start.WaitForRun)
	cmd.Flags().StringVar(&why, "reason", "", "reason, kept with the run")
	cmd.Flags().StringVar(&filter, "filter", "", "cancel the active runs that match (AIP-160), e.g. 'plan_id = plan/rma'")
	ok.Register(cmd, "show the runs, and cancel none")
	return cmd
}

// toCancel returns the named runs, or all active runs that match a filter.
func toCancel(
	ctx context.Context, a *app.App, c *client.Client, names []string, filter string,
) ([]*holdfastv1.Run, error) {
	if filter != "" {
		runs, err := kinds.Run().All(ctx, c, "("+filter+") AND ("+kinds.ActiveRuns+")", 0)
		return runs, app.Failed(err, "list runs")
	}
	runs := make([]*holdfastv1.Run, len(names))
	for i, id := range names {
		err := start.OfRun(ctx, a, c, id, func(id string) (err error) {
			runs[i], err = kinds.GetRun(ctx, c, id)
			return app.Failed(err, "cancel run %s", id)
		})
		if err != nil {
			return nil, err
		}
	}
	return runs, nil
}

// cancelLoss returns the effect of canceling runs: "cancel run run-1 (REBOOT, RUNNING); machine m-1
// goes to MAINTENANCE".
func cancelLoss(runs []*holdfastv1.Run) string {
	if len(runs) != 1 {
		return fmt.Sprintf("cancel %s; the machines of those that have begun go to MAINTENANCE", kinds.RunCount(len(runs)))
	}
	r := runs[0]
	then := "goes to MAINTENANCE"
	if r.GetStartedAt() == nil {
		then = "stays as it is: the run has not begun"
	}
	return fmt.Sprintf("cancel run %s (%s, %s); machine %s %s", r.GetRunId(), cmp.Or(r.GetType(), r.GetPlanId()),
		r.GetPhase(), r.GetMachineId(), then)
}

// cancelAll cancels runs and prints them. All are canceled before the first is waited for.
func cancelAll(
	ctx context.Context, a *app.App, c *client.Client, o *output.Flags, names []string, why string, wait start.WaitFlag,
) error {
	done, errs := make([]*holdfastv1.Run, len(names)), make([]error, len(names))
	for i, id := range names {
		errs[i] = start.OfRun(ctx, a, c, id, func(id string) (err error) {
			done[i], err = c.Runs().CancelRun(ctx, &holdfastv1.CancelRunRequest{RunId: id, Reason: why})
			return app.Failed(err, "cancel run %s", id)
		})
	}
	for i, r := range done {
		if !wait.Given || errs[i] != nil {
			continue
		}
		var err error
		if done[i], err = start.Await(ctx, a, c, r.GetRunId(), wait.Limit); err != nil && !start.IsRunError(err) {
			return err
		}
		if done[i].GetPhase() != holdfastv1.Run_CANCELED {
			errs[i] = app.Exitf(app.ExitRunFailed, "cancel run %s: it ended before it could be canceled: %s", names[i],
				done[i].GetPhase())
		}
	}
	if len(names) == 1 {
		if done[0].GetRunId() != "" {
			if err := start.PrintRun(a, o, done[0]); err != nil {
				return err
			}
		}
		return errs[0]
	}
	return output.PrintDone(a, o, kinds.Run(), done, errs, "cancel runs")
}
