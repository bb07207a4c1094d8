package node

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/holdfast-metal/holdfast/client"
	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/internal/cli/app"
	"github.com/holdfast-metal/holdfast/internal/cli/kinds"
	"github.com/holdfast-metal/holdfast/internal/cli/output"
	"github.com/holdfast-metal/holdfast/internal/cli/prompt"
	"github.com/holdfast-metal/holdfast/internal/cli/start"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

func nodeApprove(a *app.App) *cobra.Command {
	var o output.Flags
	var ok prompt.Consent
	var workflow, comment string
	cmd := &cobra.Command{
		Use: "approve NODE", Args: app.Exactly("NODE"), ValidArgsFunction: a.Complete(kinds.Machine().Names),
		Short: "Approve a discovered node; with a workflow, its next network boot installs it",
		Example: `  holdfast node approve aa:bb:cc:dd:ee:ff --workflow plan/repave-join
  holdfast node approve 0a1b2c3d --comment "rack r7, as ordered"`,
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return a.Online(func(ctx context.Context, c *client.Client, args []string) error {
			move := &holdfastv1.TransitionNodeRequest{Id: args[0], State: holdfastv1.Node_PENDING, Comment: comment}
			if err := allowMove(ctx, a, c, cmd.CommandPath(), ok, move, workflow); err != nil || ok.DryRun {
				return err
			}
			if workflow != "" { // first: once the node is pending, an installer may start
				if _, err := c.Nodes().UpdateNode(ctx,
					&holdfastv1.UpdateNodeRequest{Id: args[0], Node: &holdfastv1.NodeRecord{WorkflowId: workflow},
						Paths: []string{"workflow_id"}}); err != nil {
					return app.Failed(err, "set the workflow of node %s to %s", args[0], workflow)
				}
			}
			return moveNode(ctx, a, c, &o, move)
		})(cmd, args)
	}
	o.Register(cmd, output.Shapes(kinds.Node())...)
	ok.Register(cmd, "show the effects of the workflow, and approve nothing")
	cmd.Flags().StringVar(&workflow, "workflow", "", "plan that installs the node (default: its current workflow)")
	cmd.Flags().StringVar(&comment, "comment", "", "reason, kept in the node's history")
	return cmd
}

// allowMove blocks until the operator has confirmed a move of a node, if it retires the node, or
// approves a workflow that destroys data: the given one, else that of the node.
func allowMove(ctx context.Context, a *app.App, c *client.Client, path string, ok prompt.Consent,
	move *holdfastv1.TransitionNodeRequest, workflow string) error {
	if ok.Given() {
		return nil
	}
	node, text := move.GetId(), "move node "+move.GetId()+" to "+strings.ToLower(move.GetState().String())
	if move.GetState() == holdfastv1.Node_RETIRED {
		text = "retire node " + node + ": retired is final"
		if !ok.DryRun {
			return ok.Obtain(ctx, a, path, text, node)
		}
		a.Note("dry run: %s", text)
		return nil
	}
	if move.GetState() == holdfastv1.Node_PENDING {
		text = "approve node " + node
		if workflow == "" {
			m, err := kinds.GetNode(ctx, c, node)
			if err != nil {
				return err
			}
			workflow = m.GetNode().GetWorkflowId()
		}
	}
	if workflow == "" {
		if ok.DryRun {
			a.Note("dry run: %s: installs nothing", text)
		}
		return nil
	}
	plan, err := kinds.GetPlan(ctx, c, workflow)
	if err != nil {
		return err
	}
	if ok.DryRun {
		a.Note("dry run: %s: %s: %s", text, workflow, start.Effects(plan, nil))
		return nil
	}
	if !fsm.EffectOf(plan, nil).Grave {
		return nil
	}
	loss := fmt.Sprintf("%s: %s at its next network boot: %s", text, workflow, start.Effects(plan, nil))
	return ok.Obtain(ctx, a, path, loss, node)
}
