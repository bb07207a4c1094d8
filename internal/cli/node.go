package cli

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-metal/holdfast/client"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

func nodeCommand(a *app) *cobra.Command {
	return parent(&cobra.Command{
		Use: "node", Aliases: []string{"nodes"},
		Short: "Manage nodes: machines as their installer sees them",
		Long:  `Manage nodes: the state of a machine's disks, as reported by installers and operators. A node is named by its machine id or a MAC address.`,
		Example: `  holdfast node list --filter 'node_state = DISCOVERED'
  holdfast node approve aa:bb:cc:dd:ee:ff --workflow plan/repave-join
  holdfast node state m-123 pending --force --comment "new disk"
  holdfast node stalled`,
	}, nodeList(a), nodeGet(a), nodeApprove(a), nodeState(a), nodeTag(a), nodeHistory(a), nodeStalled(a))
}

func nodeList(a *app) *cobra.Command {
	return listCommand(a, lister[*holdfastv1.Machine]{
		short:   "List nodes by machine id",
		example: "  holdfast node list --filter 'node_state = DISCOVERED'\n  holdfast node list -w",
		kind:    nodeKind(), filter: "node_state = INSTALL_FAILED",
		watch: func(ctx context.Context, c *client.Client, l *listing) error {
			return watchPolled(ctx, a, &l.output, nodeKind(), watchInterval, significant,
				func() ([]*holdfastv1.Machine, error) { return listMachines(ctx, c, l) })
		},
	})
}

func nodeGet(a *app) *cobra.Command {
	return getCommand(a, getter[*holdfastv1.Machine]{
		short: "Show a node", example: "  holdfast node get aa:bb:cc:dd:ee:ff -o yaml",
		kind: nodeKind(),
	})
}

func nodeState(a *app) *cobra.Command {
	var o output
	var ask consent
	r := &holdfastv1.TransitionNodeRequest{}
	cmd := &cobra.Command{
		Use: "state NODE STATE", Args: exactly("NODE", "STATE"),
		ValidArgsFunction: a.complete(machineKind().names, nodeStates),
		Short:             "Move a node to another state",
		Long: `Move a node to another state, along the transitions of the node state machine. --force only bypasses the limit of
failed installs. A move to pending approves the node, like 'node approve', and asks for the same confirmation. So
does a move to retired, which is final. Without a terminal both require --yes.`,
		Example: `  holdfast node state m-123 active --comment "burn-in passed"
  holdfast node state m-123 pending --force`,
		RunE: func(cmd *cobra.Command, args []string) error {
			r.State = holdfastv1.Node_State(holdfastv1.Node_State_value[enumName(args[1])])
			if r.GetState() == 0 {
				return usagef("STATE: %q is not one of %s", args[1], strings.Join(nodeStates(cmd.Context(), nil), ", "))
			}
			return a.online(func(ctx context.Context, c *client.Client, args []string) error {
				r.Id = args[0]
				if err := allowMove(ctx, a, c, cmd.CommandPath(), ask, r, ""); err != nil || ask.dryRun {
					return err
				}
				return moveNode(ctx, a, c, &o, r)
			})(cmd, args)
		},
	}
	o.register(cmd, shapes(nodeKind())...)
	ask.register(cmd, "show the effects, and do not move the node")
	cmd.Flags().StringVar(&r.Comment, "comment", "", "reason, kept in the node's history")
	cmd.Flags().BoolVar(&r.Force, "force", false, "ignore the limit of failed installs")
	return cmd
}

func moveNode(ctx context.Context, a *app, c *client.Client, o *output, r *holdfastv1.TransitionNodeRequest) error {
	m, err := c.Nodes().TransitionNode(ctx, r)
	if err != nil {
		return failed(err, "move node %s to %s", r.GetId(), strings.ToLower(r.GetState().String()))
	}
	return printOne(a, o, nodeKind(), m)
}

func nodeStalled(a *app) *cobra.Command {
	var o output
	var after time.Duration
	cmd := &cobra.Command{
		Use: "stalled", Args: exactly(),
		Short:   "List nodes that have been installing for too long, the longest first",
		Example: "  holdfast node stalled --after 30m",
		RunE: a.online(func(ctx context.Context, c *client.Client, _ []string) error {
			stalled, _, err := collect(0, func(size int32, token string) ([]*holdfastv1.Machine, string, error) {
				r, err := c.Nodes().ListStalledNodes(ctx,
					&holdfastv1.ListStalledNodesRequest{OlderThanSeconds: int64(after.Seconds()), PageSize: size, PageToken: token})
				return r.GetMachines(), r.GetNextPageToken(), err
			})
			if err != nil {
				return failed(err, "list stalled nodes")
			}
			return printList(a, &o, nodeKind(), stalled)
		}),
	}
	o.register(cmd)
	cmd.Flags().DurationVar(&after, "after", time.Hour, "minimum time in the state")
	return cmd
}

// nodeStates completes states.
func nodeStates(context.Context, *client.Client) []string {
	return mapped(enumNames(holdfastv1.Node_State_name), strings.ToLower)
}
