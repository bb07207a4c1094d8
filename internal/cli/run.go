package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/holdfast-metal/holdfast/client"
	"github.com/holdfast-metal/holdfast/internal/cli/render"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

func (a *app) run() *cobra.Command {
	return parent(&cobra.Command{
		Use: "run", Aliases: []string{"runs", "r"},
		Short: "Start, follow and cancel runs on machines",
		Example: `  holdfast run start m-123 --type REPAVE --wait
  holdfast run list --filter 'phase = RUNNING'
  holdfast run watch
  holdfast run logs run-789 -f`,
	}, a.runStart(), a.runRetry(), a.runList(), a.runGet(), a.runCancel(), a.runLogs(), a.runWatch(), a.runWait())
}

func (a *app) runList() *cobra.Command {
	return listCommand(a, lister[*holdfastv1.Run]{
		short: "List runs, newest first",
		example: `  holdfast run list --limit 20
  holdfast run list --filter 'machine_id = m-123'
  holdfast run list --filter 'phase = FAILED' -o wide`,
		kind: runKind(), plural: "runs", filter: "machine_id = m-123",
		watch: func(ctx context.Context, c *client.Client, l *listing) error {
			return a.watchRuns(ctx, c, &l.output, l.filter, 0, l.limit)
		},
	})
}

func (a *app) runGet() *cobra.Command {
	return getCommand(a, getter[*holdfastv1.Run]{
		short: "Show a run and its steps", long: "Show a run and its steps. The id of a machine stands for its last run.",
		example: "  holdfast run get run-789\n  holdfast run get run-789 -o json",
		arg:     "RUN", kind: runKind(),
		get: func(ctx context.Context, c *client.Client, id string) (*holdfastv1.Run, error) {
			var r *holdfastv1.Run
			err := a.ofRun(ctx, c, id, func(id string) (err error) {
				r, err = c.Runs().GetRun(ctx, &holdfastv1.GetRunRequest{RunId: id})
				return err
			})
			if why := r.GetArchive().GetNote(); why != "" {
				a.note("run %s is archived: %s", r.GetRunId(), why)
			}
			return r, err
		},
		more: func(r *holdfastv1.Run) []*render.Table { return []*render.Table{runSteps(r, a.Now())} },
		watch: func(ctx context.Context, c *client.Client, o *output, id string) error {
			return a.ofRun(ctx, c, id, func(id string) error { return a.watchRun(ctx, c, o, id) })
		},
	})
}

// activeRuns is the filter of runs that have not ended.
const activeRuns = "phase = PENDING OR phase = RUNNING"

func (a *app) runCancel() *cobra.Command {
	var o output
	var why, filter string
	var wait waitFlag
	var ok consent
	cmd := &cobra.Command{
		Use: "cancel (RUN... | --filter FILTER)", DisableFlagsInUseLine: true, Args: cobra.ArbitraryArgs,
		ValidArgsFunction: a.complete(runKind().names),
		Short:             "Cancel active runs",
		Long: `Cancel active runs. A waiting run ends at once; a running one ends when its step can be stopped. The machine
goes to MAINTENANCE. Canceling a canceled run is no error. The id of a machine stands for its last run.

--filter cancels all active runs that match, after a confirmation: the number of runs. Without a terminal it requires
--yes. --dry-run prints the runs and cancels none.`,
		Example: `  holdfast run cancel run-789 --reason "wrong rack" --wait
  holdfast run cancel --filter 'request_id = "wave-7d0f"' --reason "wrong image"`,
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case (len(args) == 0) == (filter == ""):
				return usagef("%s: give either RUN or --filter: usage: %s", cmd.CommandPath(), cmd.UseLine())
			case filter == "" && ok.dryRun:
				return usagef("%s: --dry-run: only with --filter", cmd.CommandPath())
			}
			return a.online(func(ctx context.Context, c *client.Client, args []string) error {
				if filter != "" {
					active, err := runKind().all(ctx, c, "("+filter+") AND ("+activeRuns+")", 0)
					if err != nil {
						return failed(err, "list runs")
					}
					if len(active) == 0 {
						a.note("no active run matches %q", filter)
						return nil
					}
					args = ids(active, (*holdfastv1.Run).GetRunId)
					loss := fmt.Sprintf("cancel %s; the machines go to MAINTENANCE", runCount(len(active)))
					if ok.dryRun {
						a.note("dry run: %s", loss)
						return printList(a, &o, runKind(), active)
					}
					if err := ok.obtain(ctx, a, cmd.CommandPath(), loss, word(args)); err != nil {
						return err
					}
				}
				return a.cancelAll(ctx, c, &o, args, why, wait)
			})(cmd, args)
		},
	}
	o.register(cmd)
	wait.register(cmd, waitForRun)
	cmd.Flags().StringVar(&why, "reason", "", "reason, kept with the run")
	cmd.Flags().StringVar(&filter, "filter", "", "cancel the active runs that match (AIP-160), e.g. 'plan_id = plan/rma'")
	ok.register(cmd, "with --filter: show the runs, and cancel none")
	return cmd
}

// runCount returns a number of runs.
func runCount(n int) string {
	if n == 1 {
		return "1 run"
	}
	return fmt.Sprintf("%d runs", n)
}

// cancelAll cancels runs and prints them. All are canceled before the first is waited for.
func (a *app) cancelAll(
	ctx context.Context, c *client.Client, o *output, names []string, why string, wait waitFlag,
) error {
	done, errs := make([]*holdfastv1.Run, len(names)), make([]error, len(names))
	for i, id := range names {
		errs[i] = a.ofRun(ctx, c, id, func(id string) (err error) {
			done[i], err = c.Runs().CancelRun(ctx, &holdfastv1.CancelRunRequest{RunId: id, Reason: why})
			return failed(err, "cancel run %s", id)
		})
	}
	for i, r := range done {
		if !wait.set || errs[i] != nil {
			continue
		}
		var err error
		if done[i], err = a.await(ctx, c, r.GetRunId(), wait.limit); err != nil && !isRunError(err) {
			return err
		}
		if done[i].GetPhase() != holdfastv1.Run_CANCELED {
			errs[i] = &codeError{ExitRunFailed, "cancel run " + names[i] + ": it ended before it could be canceled: " +
				done[i].GetPhase().String()}
		}
	}
	if len(names) == 1 {
		if done[0].GetRunId() != "" {
			if err := a.printRun(o, done[0]); err != nil {
				return err
			}
		}
		return errs[0]
	}
	return printDone(a, o, runKind(), done, errs, "cancel runs")
}
