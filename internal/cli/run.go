package cli

import (
	"context"

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
	}, a.runStart(), a.runList(), a.runGet(), a.runCancel(), a.runLogs(), a.runWatch(), a.runWait())
}

func (a *app) runList() *cobra.Command {
	return listCommand(a, lister[*holdfastv1.Run]{
		short: "List runs, newest first",
		example: `  holdfast run list --limit 20
  holdfast run list --filter 'machine_id = m-123'
  holdfast run list --filter 'phase = FAILED' -o wide`,
		kind: runKind(), plural: "runs", filter: "machine_id = m-123",
		watch: func(ctx context.Context, c *client.Client, l *listing) error {
			return a.watchRuns(ctx, c, &l.output, l.filter, 0)
		},
	})
}

func (a *app) runGet() *cobra.Command {
	return getCommand(a, getter[*holdfastv1.Run]{
		short: "Show a run and its steps", example: "  holdfast run get run-789\n  holdfast run get run-789 -o json",
		arg: "RUN", kind: runKind(),
		get: func(ctx context.Context, c *client.Client, id string) (*holdfastv1.Run, error) {
			r, err := c.Runs().GetRun(ctx, &holdfastv1.GetRunRequest{RunId: id})
			if why := r.GetArchive().GetNote(); why != "" {
				a.note("run %s is archived: %s", id, why)
			}
			return r, err
		},
		more:  func(r *holdfastv1.Run) []*render.Table { return []*render.Table{runSteps(r, a.Now())} },
		watch: a.watchRun,
	})
}

func (a *app) runCancel() *cobra.Command {
	var o output
	var why string
	var wait waitFlag
	cmd := &cobra.Command{
		Use: "cancel RUN", Args: exactly("RUN"), ValidArgsFunction: a.complete(runKind().names),
		Short: "Cancel an active run",
		Long: `Cancel an active run. A waiting run ends at once; a running one ends when its step can be stopped. The
machine goes to MAINTENANCE. Canceling a canceled run is no error.`,
		Example: `  holdfast run cancel run-789 --reason "wrong rack" --wait`,
		RunE: a.online(func(ctx context.Context, c *client.Client, args []string) error {
			r, err := c.Runs().CancelRun(ctx, &holdfastv1.CancelRunRequest{RunId: args[0], Reason: why})
			if err != nil {
				return failed(err, "cancel run %s", args[0])
			}
			if wait.set {
				r, err = a.await(ctx, c, r.GetRunId(), wait.limit)
				if err != nil && !isRunError(err) {
					return err
				}
			}
			if err := a.printRun(&o, r); err != nil {
				return err
			}
			if wait.set && r.GetPhase() != holdfastv1.Run_CANCELED {
				return &codeError{ExitRunFailed, "cancel run " + args[0] + ": it ended before it could be canceled: " +
					r.GetPhase().String()}
			}
			return nil
		}),
	}
	o.register(cmd)
	wait.register(cmd, waitForRun)
	cmd.Flags().StringVar(&why, "reason", "", "reason, kept with the run")
	return cmd
}
