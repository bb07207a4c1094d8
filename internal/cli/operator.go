package cli

import (
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-metal/holdfast/cluster"
)

func (a *app) operator() *cobra.Command {
	return parent(&cobra.Command{
		Use:   "operator",
		Short: "Keep the control plane itself: snapshots, members, recovery",
		Example: `  holdfast operator snapshot save holdfast.snap
  holdfast operator raft list-peers
  holdfast operator autopilot state`,
	}, a.operatorSnapshot(), a.operatorRaft(), a.operatorAutopilot(), a.operatorClock(), a.operatorUpgrade(), a.operatorRecover(), a.operatorDebug())
}

func (a *app) operatorRecover() *cobra.Command {
	var dir string
	var dry, yes bool
	cmd := &cobra.Command{
		Use: "recover", Args: exactly(),
		Short: "Begin anew from one peer when the majority is lost for good",
		Long: `Make the peer whose data directory is given the only one of a new cluster that has its state. It is the last resort, when a majority
of the peers does not come back, and it works on a peer that is stopped. All others must be wiped (their data directories moved away) before they
are started again: they then join the new cluster.

What the lost peers had acknowledged and this one had not is lost. So take the peer with the highest term, and of those the one with the highest
index, as --dry-run shows them. Runs that were active fail with a reason, and nothing is pressed for them again.`,
		Example: `  holdfast operator recover --data-dir /var/lib/holdfast --dry-run
  holdfast operator recover --data-dir /var/lib/holdfast --yes`,
		RunE: func(*cobra.Command, []string) error {
			if dir == "" {
				return usagef("operator recover: --data-dir is missing: the data directory of a peer that is stopped")
			}
			if !dry && !yes {
				return usagef("operator recover: look with --dry-run first, then say --yes")
			}
			r, err := cluster.Recover(dir, dry, slog.New(slog.DiscardHandler))
			if err != nil {
				return err
			}
			return a.printRecovery(r)
		},
	}
	cmd.Flags().StringVar(&dir, "data-dir", "", "`directory` of a peer that is stopped")
	cmd.Flags().BoolVar(&dry, "dry-run", false, "look and change nothing")
	cmd.Flags().BoolVar(&yes, "yes", false, "do it")
	return cmd
}

func (a *app) printRecovery(r *cluster.Recovery) error {
	var b strings.Builder
	fmt.Fprintf(&b, "peer %s of cluster %s\n", r.NodeID, r.ClusterID)
	fmt.Fprintf(&b, "  members     %s\n", strings.Join(r.Servers, ", "))
	fmt.Fprintf(&b, "  newest      term %d, index %d (snapshot at %d), %s\n", r.LastTerm, r.LastIndex, r.SnapshotIndex, r.Now.UTC().Format(time.RFC3339))
	fmt.Fprintf(&b, "  machines    %d\n", r.Machines)
	if len(r.ActiveRuns) > 0 {
		fmt.Fprintf(&b, "  will fail   %d active runs: %s\n", len(r.ActiveRuns), strings.Join(r.ActiveRuns, ", "))
	}
	if r.NewClusterID == "" {
		b.WriteString("Nothing was changed. What others have after this term and index would be lost; their data directories must be moved away.\n")
	} else {
		fmt.Fprintf(&b, "It is now the only peer of cluster %s. Start it; then start the others with empty data directories.\n", r.NewClusterID)
	}
	_, err := fmt.Fprint(a.Out, b.String())
	return err
}

// unavailable is for what a cluster must not be in.
func unavailable(format string, args ...any) error {
	return &codeError{ExitUnavailable, fmt.Sprintf(format, args...)}
}
