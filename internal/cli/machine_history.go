package cli

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-metal/holdfast/client"
	"github.com/holdfast-metal/holdfast/internal/cli/render"
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

func historyKind() kind[*holdfastv1.HistoryEntry] {
	return kind[*holdfastv1.HistoryEntry]{
		list:   "entries",
		name:   func(e *holdfastv1.HistoryEntry) string { return stamp(e.GetAt()) },
		header: []string{"AT", "FACET", "FROM", "TO", "BY", "RUN", "COMMENT"},
		wide:   []string{"SEQUENCE", "PRINCIPAL", "METADATA"},
		row: func(e *holdfastv1.HistoryEntry, _ time.Time) []any {
			return []any{
				stamp(e.GetAt()), e.GetFacet(), render.State(e.GetFrom()), render.State(e.GetTo()),
				e.GetTriggeredBy(), e.GetRunId(), e.GetComment(),
				number(e.GetSequence()), e.GetPrincipal(), joined(e.GetMetadata()),
			}
		},
	}
}
