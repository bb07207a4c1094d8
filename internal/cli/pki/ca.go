package pki

import (
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/holdfast-metal/holdfast/cluster/peertls"
	"github.com/holdfast-metal/holdfast/cluster/peertls/issue"
)

func caCreate() *cobra.Command {
	var cluster, out string
	var days int
	cmd := &cobra.Command{
		Use: "create [--cluster NAME] [--out DIR] [--days N]", DisableFlagsInUseLine: true, Args: noArgs,
		Short: "Make the CA of a cluster: ca.pem and ca-key.pem",
		Long: `Make the CA of a cluster: ca.pem, which every peer and client gets, and ca-key.pem, which belongs on none of them:
whoever has it can be any peer and any user.

The cluster's name is in the names of its peers, spiffe://holdfast/NAME/peer/ID. Peers of clusters with different names do not
talk to each other, even with one CA.`,
		Example: `  holdfast tls ca create
  holdfast tls ca create --cluster prod --out /root/holdfast-ca`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := peertls.CheckName("--cluster", cluster); err != nil {
				return usagef(cmd, "%s", err)
			}
			until, err := end(cmd, days)
			if err != nil {
				return err
			}
			ca, err := issue.NewCA(cluster, until)
			if err != nil {
				return err
			}
			cert, key := filepath.Join(out, certFile), filepath.Join(out, keyFile)
			if err := create(file{key, ca.Pair.Key}, file{cert, ca.Pair.Cert}); err != nil {
				return err
			}
			cmd.Printf("%s  the CA of cluster %s, until %s: every peer and client gets it\n", cert, cluster, date(ca.Cert.NotAfter))
			cmd.Printf("%s  its key: keep it away from the peers\n", key)
			cmd.Printf("next: holdfast tls cert create --peer ID --host NAME-OR-ADDRESS%s\n", caDirHint(out))
			return nil
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&cluster, "cluster", "default", "`name` of the cluster")
	fs.StringVar(&out, "out", ".", "`directory` to write to; made if it is not there")
	fs.IntVar(&days, "days", 3650, "`days` until it ends")
	return cmd
}

func caDirHint(dir string) string {
	if dir == "." {
		return ""
	}
	return " --ca-dir " + dir
}
