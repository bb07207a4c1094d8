package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/holdfast-metal/holdfast/client"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

func (a *app) run() *cobra.Command {
	return parent(&cobra.Command{
		Use: "run", Aliases: []string{"runs", "r"},
		Short: "Runs: start, follow and cancel operations on machines",
		Example: `  holdfast run start m-123 --type REPAVE --wait
  holdfast run list --filter 'phase = RUNNING'
  holdfast run watch
  holdfast run logs run-789 -f`,
	}, a.runStart(), a.runList(), a.runGet(), a.runCancel(), a.runLogs(), a.runWatch(), a.runWait())
}

func (a *app) runList() *cobra.Command {
	var l listing
	var watch bool
	cmd := &cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Args: exactly(),
		Short: "List runs, newest first",
		Example: `  holdfast run list --limit 20
  holdfast run list --filter 'machine_id = m-123'
  holdfast run list --filter 'phase = FAILED' -o wide`,
		RunE: a.online(func(ctx context.Context, c *client.Client, _ []string) error {
			if watch {
				return a.watchRuns(ctx, c, &l.output, l.filter, 0)
			}
			items, more, err := collect(l.limit, func(size int32, token string) ([]*holdfastv1.Run, string, error) {
				r, err := c.Runs().ListRuns(ctx, &holdfastv1.ListRunsRequest{Filter: l.filter, PageSize: size, PageToken: token})
				return r.GetRuns(), r.GetNextPageToken(), err
			})
			if err != nil {
				return failed(err, "list runs")
			}
			a.noteMore(&l, more)
			return printList(a, &l.output, runKind(), items)
		}),
	}
	l.register(cmd, "machine_id = m-123")
	cmd.Flags().BoolVarP(&watch, "watch", "w", false, "follow the runs that match (holdfast run watch)")
	return cmd
}

func (a *app) runGet() *cobra.Command {
	var o output
	var watch bool
	cmd := &cobra.Command{
		Use: "get RUN", Args: exactly("RUN"), ValidArgsFunction: a.complete(runIDs),
		Short: "Show a run and its steps",
		Example: `  holdfast run get run-789
  holdfast run get run-789 -o json`,
		RunE: a.online(func(ctx context.Context, c *client.Client, args []string) error {
			if watch {
				return a.watchRun(ctx, c, &o, args[0])
			}
			r, err := c.Runs().GetRun(ctx, &holdfastv1.GetRunRequest{RunId: args[0]})
			if err != nil {
				return failed(err, "get run %s", args[0])
			}
			return printOne(a, &o, runKind(), r, runSteps(r, a.Now()))
		}),
	}
	o.register(cmd)
	cmd.Flags().BoolVarP(&watch, "watch", "w", false, "follow it until it has ended (holdfast run watch RUN)")
	return cmd
}

func (a *app) runCancel() *cobra.Command {
	var o output
	var why string
	var wait waitFlag
	cmd := &cobra.Command{
		Use: "cancel RUN", Args: exactly("RUN"), ValidArgsFunction: a.complete(runIDs),
		Short: "Cancel an active run",
		Long: `Cancel an active run. One that waits ends at once; one that is at work ends when its step can be
stopped. The machine goes to MAINTENANCE. Canceling a canceled run is fine.`,
		Example: `  holdfast run cancel run-789 --reason "wrong rack" --wait`,
		RunE: a.online(func(ctx context.Context, c *client.Client, args []string) error {
			r, err := c.Runs().CancelRun(ctx, &holdfastv1.CancelRunRequest{RunId: args[0], Reason: why})
			if err != nil {
				return failed(err, "cancel run %s", args[0])
			}
			if wait.set {
				r, err = a.await(ctx, c, r.GetRunId(), wait.limit)
				var ended *runError
				if err = unlessRunError(err, &ended); err != nil {
					return err
				}
			}
			if err := printOne(a, &o, runKind(), r, runSteps(r, a.Now())); err != nil {
				return err
			}
			if wait.set && r.GetPhase() != holdfastv1.Run_CANCELED {
				return &codeError{ExitRunFailed, "cancel run " + args[0] + ": it ended before it could be canceled: " + r.GetPhase().String()}
			}
			return nil
		}),
	}
	o.register(cmd)
	wait.register(cmd)
	cmd.Flags().StringVar(&why, "reason", "", "why; kept on the run")
	return cmd
}
