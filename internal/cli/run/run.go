package run

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/holdfast-metal/holdfast/client"
	"github.com/holdfast-metal/holdfast/internal/cli/app"
	"github.com/holdfast-metal/holdfast/internal/cli/kinds"
	"github.com/holdfast-metal/holdfast/internal/cli/output"
	"github.com/holdfast-metal/holdfast/internal/cli/render"
	"github.com/holdfast-metal/holdfast/internal/cli/start"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// Command returns the commands of runs.
func Command(a *app.App) *cobra.Command {
	return app.Parent(&cobra.Command{
		Use: "run", Aliases: []string{"runs", "r"},
		Short: "Start, follow and cancel runs on machines",
		Example: `  holdfast run start m-123 --type REPAVE --wait
  holdfast run list --filter 'phase = RUNNING'
  holdfast run watch
  holdfast run logs run-789 -f`,
	}, runStart(a), runRetry(a), runList(a), runGet(a), runCancel(a), runLogs(a), runWatch(a), runWait(a))
}

func runList(a *app.App) *cobra.Command {
	return output.ListCommand(a, output.Lister[*holdfastv1.Run]{
		Short: "List runs, newest first",
		Example: `  holdfast run list --limit 20
  holdfast run list --filter 'machine_id = m-123'
  holdfast run list --filter 'phase = FAILED' -o wide`,
		Kind: kinds.Run(), Filter: "machine_id = m-123",
		Watch: func(ctx context.Context, c *client.Client, l *output.Listing) error {
			return watchRuns(ctx, a, c, &l.Flags, l.Filter, 0, l.Limit)
		},
	})
}

func runGet(a *app.App) *cobra.Command {
	return output.GetCommand(a, output.Getter[*holdfastv1.Run]{
		Short: "Show a run and its steps", Long: "Show a run and its steps. The id of a machine stands for its last run.",
		Example: "  holdfast run get run-789\n  holdfast run get run-789 -o json",
		Kind:    kinds.Run(),
		Get: func(ctx context.Context, c *client.Client, id string) (*holdfastv1.Run, error) {
			var r *holdfastv1.Run
			err := start.OfRun(ctx, a, c, id, func(id string) (err error) {
				r, err = kinds.GetRun(ctx, c, id)
				return err
			})
			if why := r.GetArchive().GetNote(); why != "" {
				a.Note("run %s is archived: %s", r.GetRunId(), why)
			}
			return r, err
		},
		More: func(r *holdfastv1.Run) []*render.Table { return append(kinds.RunEffect(r), kinds.RunSteps(r, a.Now())) },
		Watch: func(ctx context.Context, c *client.Client, o *output.Flags, id string) error {
			return start.OfRun(ctx, a, c, id, func(id string) error { return watchRun(ctx, a, c, o, id) })
		},
	})
}
