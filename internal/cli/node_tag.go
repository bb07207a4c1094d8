package cli

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/holdfast-metal/holdfast/client"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

func nodeTag(a *app) *cobra.Command {
	var o output
	var remove bool
	cmd := &cobra.Command{
		Use: "tag NODE TAG...", Args: between(2, 64, "NODE", "TAG..."), ValidArgsFunction: a.complete(machineKind().names),
		Short: "Add tags to a node, or remove them",
		Example: `  holdfast node tag m-123 gpu rack-7
  holdfast node tag aa:bb:cc:dd:ee:ff rack-7 --remove`,
		RunE: a.online(func(ctx context.Context, c *client.Client, args []string) error {
			path, verb := "tags.add", "tag"
			if remove {
				path, verb = "tags.remove", "remove the tags of"
			}
			m, err := c.Nodes().UpdateNode(ctx, &holdfastv1.UpdateNodeRequest{Id: args[0],
				Node: &holdfastv1.NodeRecord{Tags: args[1:]}, Paths: []string{path}})
			if err != nil {
				return failed(err, "%s node %s: %s", verb, args[0], strings.Join(args[1:], ", "))
			}
			return printOne(a, &o, nodeKind(), m)
		}),
	}
	o.register(cmd, shapes(nodeKind())...)
	cmd.Flags().BoolVar(&remove, "remove", false, "remove the tags")
	return cmd
}

func nodeHistory(a *app) *cobra.Command {
	return listCommand(a, lister[*holdfastv1.HistoryEntry]{
		use: "history NODE", args: []string{"NODE"}, ids: machineKind().names,
		short:   "List what happened to a node, newest first",
		example: "  holdfast node history aa:bb:cc:dd:ee:ff\n  holdfast node history m-123 -o wide",
		kind:    historyKind(), plural: "the history of a node",
		page: func(ctx context.Context, c *client.Client, q query) ([]*holdfastv1.HistoryEntry, string, error) {
			m, err := getNode(ctx, c, q.args[0])
			if err != nil {
				return nil, "", err
			}
			r, err := c.Machines().ListMachineHistory(ctx, &holdfastv1.ListMachineHistoryRequest{MachineId: m.GetMachineId(),
				PageSize: q.size, PageToken: q.token})
			return r.GetEntries(), r.GetNextPageToken(), err
		},
	})
}
