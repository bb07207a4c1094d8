package operator

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/holdfast-metal/holdfast/cluster"
	"github.com/holdfast-metal/holdfast/internal/cli/app"
)

func raftVerify(a *app.App) *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use: "verify --data-dir DIRECTORY", DisableFlagsInUseLine: true, Args: app.Exactly(),
		Short: "Verify the data directory of a stopped peer (exit code 1 if it is damaged)",
		Long: `Verify the data directory of a stopped peer: the checksum of every entry of the Raft log and of
every snapshot, that no entry is missing between them, and that the term and the vote fit. Nothing is changed.

An interrupted write at the end of the log is not damage: it was never acknowledged. If the disk has lost the
end of the log, this can look the same.

The exit code is 0 if everything verifies. If not, it is 1, and the error names the file, the first damaged
entry and the remedy.`,
		Example: `  holdfast operator raft verify --data-dir /var/lib/holdfast`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if dir == "" {
				return app.Usagef("%s: --data-dir is missing: the data directory of a peer that is stopped", cmd.CommandPath())
			}
			v, err := cluster.Verify(dir)
			if err != nil {
				return err
			}
			return printVerification(a, dir, v)
		},
	}
	cmd.Flags().StringVar(&dir, "data-dir", "", "data `directory` of the stopped peer")
	return cmd
}

func printVerification(a *app.App, dir string, v *cluster.Verification) error {
	var b strings.Builder
	fmt.Fprintf(&b, "peer %s", v.PeerID)
	if v.ClusterID != "" {
		fmt.Fprintf(&b, " of cluster %s", v.ClusterID)
	}
	b.WriteString("\n")
	for _, s := range v.Stores {
		text := s.Contents
		if s.Damage != nil {
			text = "DAMAGED: " + s.Damage.Error()
		}
		fmt.Fprintf(&b, "  %-12s  %s: %s\n", s.Store, s.File, text)
	}
	damaged := v.Damaged()
	if damaged == nil {
		b.WriteString("Everything verifies.\n")
	}
	if _, err := fmt.Fprint(a.Out, b.String()); err != nil || damaged == nil {
		return err
	}
	return app.Exitf(app.ExitError, "verify %s: %s: %s: %s", dir, damaged.File, damaged.Damage,
		cluster.DamageAdvice)
}
