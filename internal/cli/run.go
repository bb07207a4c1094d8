package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/holdfast-metal/holdfast/client"
	"github.com/holdfast-metal/holdfast/internal/cli/render"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

func runCommand(a *app) *cobra.Command {
	return parent(&cobra.Command{
		Use: "run", Aliases: []string{"runs", "r"},
		Short: "Start, follow and cancel runs on machines",
		Example: `  holdfast run start m-123 --type REPAVE --wait
  holdfast run list --filter 'phase = RUNNING'
  holdfast run watch
  holdfast run logs run-789 -f`,
	}, runStart(a), runRetry(a), runList(a), runGet(a), runCancel(a), runLogs(a), runWatch(a), runWait(a))
}

func runList(a *app) *cobra.Command {
	return listCommand(a, lister[*holdfastv1.Run]{
		short: "List runs, newest first",
		example: `  holdfast run list --limit 20
  holdfast run list --filter 'machine_id = m-123'
  holdfast run list --filter 'phase = FAILED' -o wide`,
		kind: runKind(), filter: "machine_id = m-123",
		watch: func(ctx context.Context, c *client.Client, l *listing) error {
			return watchRuns(ctx, a, c, &l.output, l.filter, 0, l.limit)
		},
	})
}

func runGet(a *app) *cobra.Command {
	return getCommand(a, getter[*holdfastv1.Run]{
		short: "Show a run and its steps", long: "Show a run and its steps. The id of a machine stands for its last run.",
		example: "  holdfast run get run-789\n  holdfast run get run-789 -o json",
		kind:    runKind(),
		get: func(ctx context.Context, c *client.Client, id string) (*holdfastv1.Run, error) {
			var r *holdfastv1.Run
			err := ofRun(ctx, a, c, id, func(id string) (err error) {
				r, err = getRun(ctx, c, id)
				return err
			})
			if why := r.GetArchive().GetNote(); why != "" {
				a.note("run %s is archived: %s", r.GetRunId(), why)
			}
			return r, err
		},
		more: func(r *holdfastv1.Run) []*render.Table { return append(runEffect(r), runSteps(r, a.Now())) },
		watch: func(ctx context.Context, c *client.Client, o *output, id string) error {
			return ofRun(ctx, a, c, id, func(id string) error { return watchRun(ctx, a, c, o, id) })
		},
	})
}
