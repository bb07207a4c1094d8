package operator

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/holdfast-metal/holdfast/client"
	"github.com/holdfast-metal/holdfast/cluster"
	"github.com/holdfast-metal/holdfast/internal/cli/app"
	"github.com/holdfast-metal/holdfast/internal/cli/prompt"
	"github.com/holdfast-metal/holdfast/internal/describe"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// Command returns the commands of operators.
func Command(a *app.App) *cobra.Command {
	return app.Parent(&cobra.Command{
		Use:   "operator",
		Short: "Administer the cluster: snapshots, members, recovery",
		Example: `  holdfast operator snapshot save holdfast.snap
  holdfast operator raft list-peers
  holdfast operator autopilot state`,
	}, operatorSnapshot(a), operatorRaft(a), operatorAutopilot(a), operatorClock(a), operatorUpgrade(a),
		operatorRecover(a), operatorDebug(a))
}

func operatorRecover(a *app.App) *cobra.Command {
	var dir string
	var before uint64
	var ok prompt.Consent
	cmd := &cobra.Command{
		Use: "recover --data-dir DIRECTORY", DisableFlagsInUseLine: true, Args: app.Exactly(),
		Short: "Recover a cluster from one peer after the majority is lost",
		Long: `Turn the stopped peer with this data directory into the only peer of a new cluster that has its state. This is the last resort, if a
majority of the peers cannot be brought back. Wipe all other peers (move their data directories away) before you start them again:
they then join the new cluster.

Writes that the lost peers acknowledged and this peer does not have are lost. A directory that was recognized as an old copy can be
recovered too, with a warning: prefer any other peer. So choose the peer with the highest term, and among
these the highest index, as --dry-run shows them. Active runs fail with a reason, and nothing is pressed for them again.

If all peers stop at one entry of the log that they cannot apply, --before leaves out this entry and all later ones, which no peer has
applied or answered.

The command shows the changes and asks for confirmation: the id of the peer. Without a terminal it requires --yes.`,
		Example: `  holdfast operator recover --data-dir /var/lib/holdfast --dry-run
  holdfast operator recover --data-dir /var/lib/holdfast --yes`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if dir == "" {
				return app.Usagef("%s: --data-dir is missing: the data directory of a peer that is stopped", cmd.CommandPath())
			}
			if err := ok.Precheck(a, cmd.CommandPath(), "make a new cluster of one peer"); err != nil {
				return err
			}
			if !ok.Given() {
				r, err := cluster.Recover(dir, before, true, slog.New(slog.DiscardHandler))
				if err != nil {
					return err
				}
				if err := printRecovery(a, r); err != nil || ok.DryRun {
					return err
				}
				err = ok.Obtain(cmd.Context(), a, cmd.CommandPath(), "make a new cluster of peer "+r.PeerID+" alone", r.PeerID)
				if err != nil {
					return err
				}
			}
			r, err := cluster.Recover(dir, before, false, slog.New(slog.DiscardHandler))
			if err != nil {
				return err
			}
			return printRecovery(a, r)
		},
	}
	cmd.Flags().StringVar(&dir, "data-dir", "", "data `directory` of the stopped peer")
	cmd.Flags().Uint64Var(&before, "before", 0, "leave out the entry with this `index`, which no peer can apply, and all later ones")
	ok.Register(cmd, "show the changes, and make none")
	return cmd
}

func printRecovery(a *app.App, r *cluster.Recovery) error {
	var b strings.Builder
	fmt.Fprintf(&b, "peer %s of cluster %s\n", r.PeerID, r.ClusterID)
	fmt.Fprintf(&b, "  members     %s\n", strings.Join(r.Servers, ", "))
	fmt.Fprintf(&b, "  newest      term %d, index %d (snapshot at %d), %s\n", r.LastTerm, r.LastIndex,
		r.SnapshotIndex, r.Now.UTC().Format(time.RFC3339))
	fmt.Fprintf(&b, "  machines    %d\n", r.Machines)
	if len(r.ActiveRuns) > 0 {
		fmt.Fprintf(&b, "  will fail   %s: %s\n", describe.Number(len(r.ActiveRuns), "active run"),
			strings.Join(r.ActiveRuns, ", "))
	}
	if r.Dropped > 0 {
		fmt.Fprintf(&b, "  left out    %d to %d, which no peer can apply\n", r.LastIndex+1, r.LastIndex+r.Dropped)
	}
	if r.Stale != "" {
		fmt.Fprintf(&b, "  WARNING     this directory is older than what the peer acknowledged (%s)\n", r.Stale)
	}
	if r.NewClusterID == "" {
		b.WriteString("Nothing was changed. What others have after this term and index would be lost; their data " +
			"directories must be moved away.\n")
	} else {
		fmt.Fprintf(&b, "It is now the only peer of cluster %s. Start it; then start the others with empty data "+
			"directories.\n", r.NewClusterID)
	}
	_, err := fmt.Fprint(a.Out, b.String())
	return err
}

func operatorClock(a *app.App) *cobra.Command {
	return app.Parent(&cobra.Command{
		Use:     "clock",
		Short:   "Show or reset the replicated clock",
		Example: "  holdfast operator clock show",
	}, clockVerb(a, "show", "Show the replicated clock and the leader's", true),
		clockVerb(a, "reset", "Set the replicated clock to this machine's time, if a wrong clock has moved it", false))
}

func clockVerb(a *app.App, use, short string, dry bool) *cobra.Command {
	return &cobra.Command{
		Use: use, Args: app.Exactly(), Short: short, Example: "  holdfast operator clock " + use,
		RunE: a.Online(func(ctx context.Context, c *client.Client, _ []string) error {
			r, err := c.Operator().ResetClock(ctx, &holdfastv1.ResetClockRequest{Time: timestamppb.New(time.Now()),
				DryRun: dry})
			if err != nil {
				return app.Failed(err, "%s the clock", use)
			}
			record, leader := r.GetBefore().AsTime(), r.GetLeader().AsTime()
			_, err = fmt.Fprintf(a.Out, "record  %s\nleader  %s\nahead   %s\n",
				record.Format(time.RFC3339), leader.Format(time.RFC3339), record.Sub(leader).Round(time.Second))
			if err == nil && !dry {
				_, err = fmt.Fprintln(a.Out, "the replicated clock was set")
			}
			return err
		}),
	}
}
