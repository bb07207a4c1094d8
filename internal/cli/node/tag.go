package node

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/holdfast-metal/holdfast/client"
	"github.com/holdfast-metal/holdfast/internal/cli/app"
	"github.com/holdfast-metal/holdfast/internal/cli/kinds"
	"github.com/holdfast-metal/holdfast/internal/cli/output"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

func nodeTag(a *app.App) *cobra.Command {
	var o output.Flags
	var remove bool
	cmd := &cobra.Command{
		Use: "tag NODE TAG...", Args: app.Between(2, 64, "NODE", "TAG..."),
		ValidArgsFunction: a.Complete(kinds.Machine().Names),
		Short:             "Add tags to a node, or remove them",
		Example: `  holdfast node tag m-123 gpu rack-7
  holdfast node tag aa:bb:cc:dd:ee:ff rack-7 --remove`,
		RunE: a.Online(func(ctx context.Context, c *client.Client, args []string) error {
			path, verb := "tags.add", "tag"
			if remove {
				path, verb = "tags.remove", "remove the tags of"
			}
			m, err := c.Nodes().UpdateNode(ctx, &holdfastv1.UpdateNodeRequest{Id: args[0],
				Node: &holdfastv1.NodeRecord{Tags: args[1:]}, Paths: []string{path}})
			if err != nil {
				return app.Failed(err, "%s node %s: %s", verb, args[0], strings.Join(args[1:], ", "))
			}
			return output.PrintOne(a, &o, kinds.Node(), m)
		}),
	}
	o.Register(cmd, output.Shapes(kinds.Node())...)
	cmd.Flags().BoolVar(&remove, "remove", false, "remove the tags")
	return cmd
}

func nodeHistory(a *app.App) *cobra.Command {
	return output.ListCommand(a, output.Lister[*holdfastv1.HistoryEntry]{
		Use: "history NODE", Args: []string{"NODE"}, IDs: kinds.Machine().Names,
		Short:   "List what happened to a node, newest first",
		Example: "  holdfast node history aa:bb:cc:dd:ee:ff\n  holdfast node history m-123 -o wide",
		Kind:    kinds.History(), Plural: "the history of a node",
		Page: func(ctx context.Context, c *client.Client, q output.Query) ([]*holdfastv1.HistoryEntry, string, error) {
			m, err := kinds.GetNode(ctx, c, q.Args[0])
			if err != nil {
				return nil, "", err
			}
			r, err := c.Machines().ListMachineHistory(ctx, &holdfastv1.ListMachineHistoryRequest{MachineId: m.GetMachineId(),
				PageSize: q.Size, PageToken: q.Token})
			return r.GetEntries(), r.GetNextPageToken(), err
		},
	})
}
