package cli

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-metal/holdfast/client"
	"github.com/holdfast-metal/holdfast/cmd/holdfast/cli/render"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

func (a *app) machineHistory() *cobra.Command {
	var l listing
	cmd := &cobra.Command{
		Use: "history MACHINE", Args: exactly("MACHINE"), ValidArgsFunction: a.complete(machineIDs),
		Short: "List what happened to a machine, newest first",
		Example: `  holdfast machine history m-123 --limit 20
  holdfast machine history m-123 -o json`,
		RunE: a.online(func(ctx context.Context, c *client.Client, args []string) error {
			items, more, err := collect(l.limit, func(size int32, token string) ([]*holdfastv1.HistoryEntry, string, error) {
				r, err := c.Machines().ListMachineHistory(ctx, &holdfastv1.ListMachineHistoryRequest{MachineId: args[0], PageSize: size, PageToken: token})
				return r.GetEntries(), r.GetNextPageToken(), err
			})
			if err != nil {
				return failed(err, "list history of machine %s", args[0])
			}
			if more {
				a.note("note: there is more than these %d entries: raise --limit", l.limit)
			}
			return printList(a, &l.output, historyKind(), items)
		}),
	}
	l.register(cmd, "")
	return cmd
}

func historyKind() kind[*holdfastv1.HistoryEntry] {
	return kind[*holdfastv1.HistoryEntry]{
		list:   "entries",
		name:   func(e *holdfastv1.HistoryEntry) string { return stamp(at(e.GetAt())) },
		header: []string{"AT", "FACET", "FROM", "TO", "BY", "RUN", "COMMENT"},
		wide:   []string{"SEQUENCE", "PRINCIPAL", "METADATA"},
		row: func(e *holdfastv1.HistoryEntry, _ time.Time, wide bool) []render.Text {
			row := []render.Text{
				plain(stamp(at(e.GetAt()))),
				plain(e.GetFacet()),
				render.State(e.GetFrom()),
				render.State(e.GetTo()),
				plain(e.GetTriggeredBy()),
				plain(e.GetRunId()),
				plain(e.GetComment()),
			}
			if wide {
				row = append(row, plain(number(e.GetSequence())), plain(e.GetPrincipal()), joined(e.GetMetadata()))
			}
			return row
		},
	}
}

// stamp is a time to the second, in UTC: histories of several places are put side by side.
func stamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}
