package machine

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/holdfast-metal/holdfast/client"
	"github.com/holdfast-metal/holdfast/internal/cli/app"
	"github.com/holdfast-metal/holdfast/internal/cli/kinds"
	"github.com/holdfast-metal/holdfast/internal/cli/output"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

func machineHistory(a *app.App) *cobra.Command {
	return output.ListCommand(a, output.Lister[*holdfastv1.HistoryEntry]{
		Use: "history MACHINE", Args: []string{"MACHINE"}, IDs: kinds.Machine().Names,
		Short:   "List what happened to a machine, newest first",
		Example: "  holdfast machine history m-123 --limit 20\n  holdfast machine history m-123 -o json",
		Kind:    kinds.History(), Plural: "the history of a machine",
		Page: func(ctx context.Context, c *client.Client, q output.Query) ([]*holdfastv1.HistoryEntry, string, error) {
			r, err := c.Machines().ListMachineHistory(ctx, &holdfastv1.ListMachineHistoryRequest{MachineId: q.Args[0],
				PageSize: q.Size, PageToken: q.Token})
			return r.GetEntries(), r.GetNextPageToken(), err
		},
	})
}
