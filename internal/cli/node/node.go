package node

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-metal/holdfast/client"
	"github.com/holdfast-metal/holdfast/internal/cli/app"
	"github.com/holdfast-metal/holdfast/internal/cli/kinds"
	"github.com/holdfast-metal/holdfast/internal/cli/output"
	"github.com/holdfast-metal/holdfast/internal/cli/prompt"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// Command returns the commands of nodes.
func Command(a *app.App) *cobra.Command {
	return app.Parent(&cobra.Command{
		Use: "node", Aliases: []string{"nodes"},
		Short: "Manage nodes: machines as their installer sees them",
		Long:  `Manage nodes: the state of a machine's disks, as reported by installers and operators. A node is named by its machine id or a MAC address.`,
		Example: `  holdfast node list --filter 'node_state = DISCOVERED'
  holdfast node approve aa:bb:cc:dd:ee:ff --workflow plan/repave-join
  holdfast node state m-123 pending --force --comment "new disk"
  holdfast node stalled`,
	}, nodeList(a), nodeGet(a), nodeApprove(a), nodeState(a), nodeTag(a), nodeHistory(a), nodeStalled(a))
}

func nodeList(a *app.App) *cobra.Command {
	return output.ListCommand(a, output.Lister[*holdfastv1.Machine]{
		Short:   "List nodes by machine id",
		Example: "  holdfast node list --filter 'node_state = DISCOVERED'\n  holdfast node list -w",
		Kind:    kinds.Node(), Filter: "node_state = INSTALL_FAILED",
		Watch: func(ctx context.Context, c *client.Client, l *output.Listing) error {
			return output.WatchPolled(ctx, a, &l.Flags, kinds.Node(), output.WatchInterval, kinds.Significant,
				func() ([]*holdfastv1.Machine, error) { return kinds.ListMachines(ctx, c, l) })
		},
	})
}

func nodeGet(a *app.App) *cobra.Command {
	return output.GetCommand(a, output.Getter[*holdfastv1.Machine]{
		Short: "Show a node", Example: "  holdfast node get aa:bb:cc:dd:ee:ff -o yaml",
		Kind: kinds.Node(),
	})
}

func nodeState(a *app.App) *cobra.Command {
	var o output.Flags
	var ask prompt.Consent
	r := &holdfastv1.TransitionNodeRequest{}
	cmd := &cobra.Command{
		Use: "state NODE STATE", Args: app.Exactly("NODE", "STATE"),
		ValidArgsFunction: a.Complete(kinds.Machine().Names, nodeStates),
		Short:             "Move a node to another state",
		Long: `Move a node to another state, along the transitions of the node state machine. --force only bypasses the limit of
failed installs. A move to pending approves the node, like 'node approve', and asks for the same confirmation. So
does a move to retired, which is final. Without a terminal both require --yes.`,
		Example: `  holdfast node state m-123 active --comment "burn-in passed"
  holdfast node state m-123 pending --force`,
		RunE: func(cmd *cobra.Command, args []string) error {
			r.State = holdfastv1.Node_State(holdfastv1.Node_State_value[app.EnumName(args[1])])
			if r.GetState() == 0 {
				return app.Usagef("STATE: %q is not one of %s", args[1], strings.Join(nodeStates(cmd.Context(), nil), ", "))
			}
			return a.Online(func(ctx context.Context, c *client.Client, args []string) error {
				r.Id = args[0]
				if err := allowMove(ctx, a, c, cmd.CommandPath(), ask, r, ""); err != nil || ask.DryRun {
					return err
				}
				return moveNode(ctx, a, c, &o, r)
			})(cmd, args)
		},
	}
	o.Register(cmd, output.Shapes(kinds.Node())...)
	ask.Register(cmd, "show the effects, and do not move the node")
	cmd.Flags().StringVar(&r.Comment, "comment", "", "reason, kept in the node's history")
	cmd.Flags().BoolVar(&r.Force, "force", false, "ignore the limit of failed installs")
	return cmd
}

func moveNode(ctx context.Context, a *app.App, c *client.Client, o *output.Flags,
	r *holdfastv1.TransitionNodeRequest) error {
	m, err := c.Nodes().TransitionNode(ctx, r)
	if err != nil {
		return app.Failed(err, "move node %s to %s", r.GetId(), strings.ToLower(r.GetState().String()))
	}
	return output.PrintOne(a, o, kinds.Node(), m)
}

func nodeStalled(a *app.App) *cobra.Command {
	var o output.Flags
	var after time.Duration
	cmd := &cobra.Command{
		Use: "stalled", Args: app.Exactly(),
		Short:   "List nodes that have been installing for too long, the longest first",
		Example: "  holdfast node stalled --after 30m",
		RunE: a.Online(func(ctx context.Context, c *client.Client, _ []string) error {
			stalled, _, err := output.Collect(0, func(size int32, token string) ([]*holdfastv1.Machine, string, error) {
				r, err := c.Nodes().ListStalledNodes(ctx,
					&holdfastv1.ListStalledNodesRequest{OlderThanSeconds: int64(after.Seconds()), PageSize: size, PageToken: token})
				return r.GetMachines(), r.GetNextPageToken(), err
			})
			if err != nil {
				return app.Failed(err, "list stalled nodes")
			}
			return output.PrintList(a, &o, kinds.Node(), stalled)
		}),
	}
	o.Register(cmd)
	cmd.Flags().DurationVar(&after, "after", time.Hour, "minimum time in the state")
	return cmd
}

// nodeStates completes states.
func nodeStates(context.Context, *client.Client) []string {
	return app.Mapped(app.EnumNames(holdfastv1.Node_State_name), strings.ToLower)
}
