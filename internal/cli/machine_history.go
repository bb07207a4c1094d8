package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/holdfast-metal/holdfast/client"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

func machineHistory(a *app) *cobra.Command {
	return listCommand(a, lister[*holdfastv1.HistoryEntry]{
		use: "history MACHINE", args: []string{"MACHINE"}, ids: machineKind().names,
		short:   "List what happened to a machine, newest first",
		example: "  holdfast machine history m-123 --limit 20\n  holdfast machine history m-123 -o json",
		kind:    historyKind(), plural: "the history of a machine",
		page: func(ctx context.Context, c *client.Client, q query) ([]*holdfastv1.HistoryEntry, string, error) {
			r, err := c.Machines().ListMachineHistory(ctx, &holdfastv1.ListMachineHistoryRequest{MachineId: q.args[0],
				PageSize: q.size, PageToken: q.token})
			return r.GetEntries(), r.GetNextPageToken(), err
		},
	})
}
