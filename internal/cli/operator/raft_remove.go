package operator

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/holdfast-metal/holdfast/client"
	"github.com/holdfast-metal/holdfast/internal/cli/app"
	"github.com/holdfast-metal/holdfast/internal/cli/kinds"
	"github.com/holdfast-metal/holdfast/internal/cli/prompt"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

func raftRemove(a *app.App) *cobra.Command {
	var force bool
	var ok prompt.Consent
	cmd := &cobra.Command{
		Use: "remove-peer PEER", Args: app.Exactly("PEER"), ValidArgsFunction: a.Complete(kinds.PeerIDs),
		Short: "Remove a permanently lost peer from the cluster",
		Long: `Remove a permanently lost peer from the cluster. It is refused for the leader, for a peer that answers, and if the remaining voters
that answer are no majority. To remove a running peer, stop it with --leave-on-stop.

All peers deny the certificates of the removed peer from then on. With --force it also denies those of a peer that is no member.

The command asks for confirmation: the id of the peer. Without a terminal it requires --yes.`,
		Example: `  holdfast operator raft remove-peer n3
  holdfast operator raft remove-peer n3 --dry-run`,
	}
	cmd.RunE = a.Online(func(ctx context.Context, c *client.Client, args []string) error {
		id := args[0]
		if !ok.Given() {
			s, err := kinds.GetClusterStatus(ctx, c)
			if err != nil {
				return app.Failed(err, "remove peer %s", id)
			}
			loss, member := removalLoss(s, id)
			if ok.DryRun {
				a.Note("dry run: %s", loss)
				return nil
			}
			if member { // the server refuses the others
				if err := ok.Obtain(ctx, a, cmd.CommandPath(), loss, id); err != nil {
					return err
				}
			}
		}
		if _, err := c.Operator().RemovePeer(ctx, &holdfastv1.RemovePeerRequest{Id: id, Force: force}); err != nil {
			return app.Failed(err, "remove peer %s", id)
		}
		_, err := fmt.Fprintf(a.Out,
			"peer %s is no member any more, and its certificates are denied\n"+
				"to use it again: move its data directory away, make a new certificate (holdfast tls cert create --peer %s) "+
				"or admit the old one (holdfast peer admit %s), and start it\n", id, id, id)
		return err
	})
	ok.Register(cmd, "show the effect, and remove no peer")
	cmd.Flags().BoolVar(&force, "force", false, "remove it even if it answers or is no member; stop it at once")
	return cmd
}

// removalLoss returns the effect of removing a peer: "remove peer n3 (voter, alive) from the
// cluster: 2 of 3 voters remain; n3 joins again only without its data".
func removalLoss(s *holdfastv1.ClusterStatus, id string) (loss string, member bool) {
	what, voters, remain := "not a member", 0, 0
	for _, p := range s.GetPeers() {
		voter := p.GetSuffrage() == "voter"
		if voter {
			voters++
		}
		if p.GetId() != id {
			if voter {
				remain++
			}
			continue
		}
		member = p.GetSuffrage() != "none"
		what = p.GetSuffrage() + ", not alive"
		if p.GetAlive() {
			what = p.GetSuffrage() + ", alive"
		}
	}
	loss = fmt.Sprintf("remove peer %s (%s) from the cluster: %d of %d voters remain; "+
		"%s joins again only without its data", id, what, remain, voters, id)
	return loss, member
}
