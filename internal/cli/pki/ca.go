package pki

import (
	"fmt"
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
		Short: "Create the CA of a cluster: ca.pem and ca-key.pem",
		Long: `Create the CA of a cluster: ca.pem, which every peer and client needs, and ca-key.pem, which belongs on none of them:
it can sign a certificate of any peer and any user.

The name of the cluster is part of the names of its peers, spiffe://holdfast/NAME/peer/ID. Peers of clusters with different
names do not connect to each other, even with the same CA.`,
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
			if err := create(private(key, ca.Pair.Key), public(cert, ca.Pair.Cert)); err != nil {
				return err
			}
			cmd.Printf("%s  the CA of cluster %s, until %s: every peer and client gets it\n", cert, cluster,
				date(ca.Cert.NotAfter))
			cmd.Printf("%s  its key: keep it away from the peers\n", key)
			cmd.Printf("next: holdfast tls cert create --peer ID --host NAME-OR-ADDRESS%s\n", caDirHint(out))
			return nil
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&cluster, "cluster", "default", "`name` of the cluster")
	fs.StringVar(&out, "out", ".", "output `directory`, created if missing")
	fs.IntVar(&days, "days", 3650, "validity in `days`")
	return cmd
}

func caPeers() *cobra.Command {
	var dir, out string
	var days int
	cmd := &cobra.Command{
		Use: "peers [--ca-dir DIR] [--out DIR] [--days N]", DisableFlagsInUseLine: true, Args: noArgs,
		Short: "Create the CA with which peers renew their certificates: peer-ca.pem and peer-ca-key.pem",
		Long: `Create a CA for peers only, certified by the CA in --ca-dir. Every peer gets both files, as tls_peer_ca and tls_peer_ca_key of
its configuration. Whoever has the key can become any peer of the cluster, but no user.

To replace it, for example after a disk with the key was lost: make another one, put both certificates into peer-ca.pem of
every peer, the new one first, with the new key; when all peers have new certificates (holdfast cluster status -o wide),
remove the old one. Its certificates are then refused.`,
		Example: `  holdfast tls ca peers --ca-dir pki/ca --out new`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			until, err := end(cmd, days)
			if err != nil {
				return err
			}
			ca, err := loadCA(dir)
			if err != nil {
				return err
			}
			if ca.Cluster() == "" {
				return fmt.Errorf("use the CA in %s: it names no cluster: make one with holdfast tls ca create", dir)
			}
			peers, err := ca.NewPeerCA(ca.Cluster(), until)
			if err != nil {
				return err
			}
			cert, key := filepath.Join(out, peerCertFile), filepath.Join(out, peerKeyFile)
			if err := create(private(key, peers.Pair.Key), public(cert, peers.Pair.Cert)); err != nil {
				return err
			}
			cmd.Printf("%s  the CA of the peers of cluster %s, until %s: every peer gets it\n", cert, ca.Cluster(),
				date(peers.Cert.NotAfter))
			cmd.Printf("%s  its key: the same\n", key)
			return nil
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&dir, "ca-dir", ".", "`directory` with ca.pem and ca-key.pem")
	fs.StringVar(&out, "out", ".", "output `directory`, created if missing")
	fs.IntVar(&days, "days", 730, "validity in `days`, at most that of the CA")
	return cmd
}

func caDirHint(dir string) string {
	if dir == "." {
		return ""
	}
	return " --ca-dir " + dir
}
