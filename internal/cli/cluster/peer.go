package cluster

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/holdfast-metal/holdfast/client"
	"github.com/holdfast-metal/holdfast/internal/cli/app"
	"github.com/holdfast-metal/holdfast/internal/cli/kinds"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// Peer returns the commands of peers.
func Peer(a *app.App) *cobra.Command {
	return app.Parent(&cobra.Command{
		Use:   "peer",
		Short: "Admit peers that wait or were removed",
		Long: `Admit peers that wait for an admin (admit_peers: manual), or that were removed.

To make the files of another peer, see holdfast tls peer add. To remove one, see holdfast operator raft remove-peer.`,
		Example: "  holdfast peer admit n4",
	}, peerAdmit(a))
}

func peerAdmit(a *app.App) *cobra.Command {
	cmd := &cobra.Command{
		Use: "admit PEER", Args: app.Exactly("PEER"), ValidArgsFunction: a.Complete(kinds.PeerIDs),
		Short: "Let a peer join that waits or was removed",
		Long: `Let a peer join the cluster: a new one that waits because admit_peers is manual, or one that was removed and has no new
certificate. holdfast cluster status lists the peers that wait. A peer may be admitted before it starts.

A removed peer that comes back with a new certificate needs no admission, unless admit_peers is manual; its old
certificates stay denied then. This command accepts them again.`,
		Example: "  holdfast peer admit n4",
	}
	cmd.RunE = a.Online(func(ctx context.Context, c *client.Client, args []string) error {
		if _, err := c.Operator().AdmitPeer(ctx, &holdfastv1.AdmitPeerRequest{Id: args[0]}); err != nil {
			return app.Failed(err, "admit peer %s", args[0])
		}
		_, err := fmt.Fprintf(a.Out, "peer %s may join\n", args[0])
		return err
	})
	return cmd
}
