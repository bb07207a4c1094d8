package run

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/holdfast-metal/holdfast/client"
	"github.com/holdfast-metal/holdfast/internal/cli/app"
	"github.com/holdfast-metal/holdfast/internal/cli/kinds"
	"github.com/holdfast-metal/holdfast/internal/cli/output"
	"github.com/holdfast-metal/holdfast/internal/cli/progress"
	"github.com/holdfast-metal/holdfast/internal/cli/start"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

func runWatch(a *app.App) *cobra.Command {
	var o output.Flags
	var filter string
	var cursor uint64
	cmd := &cobra.Command{
		Use: "watch [RUN | --filter FILTER]", Args: app.Between(0, 1, "RUN"),
		ValidArgsFunction: a.Complete(kinds.Run().Names),
		Short:             "Follow runs live",
		Long: `Follow a run until it ends (exit code 5 if it failed or was canceled), or all matching runs until Ctrl-C. The
id of a machine stands for its last run.

On a terminal it redraws a block with the steps of the run, or with the active runs. More than 20 runs are
shown as a fleet that fits on the terminal: the number of runs per step, failures by machine, and the runs
that have been at their step for longest. In a pipe each transition is a line. -o json prints each event as
JSON on a line, with its cursor. No transition is lost or repeated, even if a peer fails.`,
		Example: `  holdfast run watch run-789
  holdfast run watch --filter 'machine_id = m-123'
  holdfast run watch --filter 'request_id = "wave-0195…"'
  holdfast run watch -o json | jq -r .snapshot.phase`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 && (filter != "" || cursor != 0) {
				return app.Usagef("%s: give either a run, or --filter and --cursor", cmd.CommandPath())
			}
			return a.Online(func(ctx context.Context, c *client.Client, args []string) error {
				if len(args) > 0 {
					return start.OfRun(ctx, a, c, args[0], func(id string) error { return watchRun(ctx, a, c, &o, id) })
				}
				return watchRuns(ctx, a, c, &o, filter, cursor, 0)
			})(cmd, args)
		},
	}
	o.Register(cmd)
	cmd.Flags().StringVar(&filter, "filter", "", "only runs that match (AIP-160), e.g. 'machine_id = m-123'")
	app.AllowEmpty(cmd.Flags(), "filter")
	cmd.Flags().Uint64Var(&cursor, "cursor", 0,
		"go on after the event with this cursor, instead of starting with the current state")
	return cmd
}

// watchRun follows one run until it ends.
func watchRun(ctx context.Context, a *app.App, c *client.Client, o *output.Flags, id string) error {
	ctx, cancel := a.Patience(ctx, 0)
	defer cancel()
	var last *holdfastv1.Run
	err := showRuns(ctx, a, o, true, func(ctx context.Context, f func(*holdfastv1.RunEvent) error) (err error) {
		last, err = c.ObserveRun(ctx, id, f)
		return err
	})
	return start.WaitError(id, last, a.Globals.Timeout, err)
}

// watchRuns follows all matching runs until the context ends.
func watchRuns(ctx context.Context, a *app.App, c *client.Client, o *output.Flags, filter string, cursor uint64,
	limit int) error {
	ctx, cancel := a.Patience(ctx, 0)
	defer cancel()
	err := showRuns(ctx, a, o, false, func(ctx context.Context, f func(*holdfastv1.RunEvent) error) error {
		first := output.FirstOf(limit)
		return c.WatchRuns(ctx, filter, cursor, func(e *holdfastv1.RunEvent) error {
			if !first(e.GetSnapshot().GetRunId()) {
				return nil
			}
			return f(e)
		})
	})
	return app.Failed(output.Ended(ctx, err), "watch runs")
}

// showRuns prints events on standard output in the selected format.
func showRuns(ctx context.Context, a *app.App, o *output.Flags, steps bool, watch output.Watcher) error {
	if o.Table() && a.Terminal(a.Out) {
		return output.DrawRuns(ctx, a, a.Out, steps, watch)
	}
	return watch(ctx, func(e *holdfastv1.RunEvent) error {
		switch {
		case o.Structured():
			return output.PrintStream(a, o, e)
		case o.Format == output.FormatName:
			_, err := fmt.Fprintln(a.Out, e.GetSnapshot().GetRunId())
			return err
		}
		_, err := fmt.Fprintln(a.Out, progress.Event(e))
		return err
	})
}

func runWait(a *app.App) *cobra.Command {
	var o output.Flags
	cmd := &cobra.Command{
		Use: "wait RUN", Args: app.Exactly("RUN"), ValidArgsFunction: a.Complete(kinds.Run().Names),
		Short: "Wait until a run ends",
		Long: `Wait until a run ends and print it. The exit code is 0 if it succeeded, 5 if it failed or was canceled, and
6 if --timeout was set and passed. The run continues whatever happens to this command.`,
		Example: `  holdfast run wait run-789
  holdfast run wait run-789 --timeout 30m -o json`,
		RunE: a.Online(func(ctx context.Context, c *client.Client, args []string) error {
			var r *holdfastv1.Run
			err := start.OfRun(ctx, a, c, args[0], func(id string) (err error) {
				r, err = start.Await(ctx, a, c, id, 0)
				return err
			})
			return start.PrintAwaited(a, &o, r, err)
		}),
	}
	o.Register(cmd)
	return cmd
}
