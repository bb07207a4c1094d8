package pki

import (
	"fmt"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-metal/holdfast/cluster/peertls"
	"github.com/holdfast-metal/holdfast/cluster/peertls/issue"
	"github.com/holdfast-metal/holdfast/internal/secrets"
)

// initFlags holds the flags of "tls init".
type initFlags struct {
	cluster string
	peers   []string
	out     string
	abs     string // out, absolute: peers may start in another directory
	layout  string
	days    int
	renew   bool // the peers get a CA of their own
}

func initCluster() *cobra.Command {
	var f initFlags
	cmd := &cobra.Command{
		Use: "init --peer ID=HOST[:PORT]… [--cluster NAME] [--out DIR] [--layout here|packages] [--days N] " +
			"[--renew]",
		DisableFlagsInUseLine: true, Args: noArgs,
		Short: "Create all files of a secure cluster: CA, certificates, keys and configurations",
		Long: `Create all files of a secure cluster, in a new directory: the CA, a directory for each peer, and one for the first admin.
A peer's directory has its configuration, its certificate, the keys of gossip and secrets, and the certificate of the CA.

HOST is the name or address of the peer for all others and for clients. PORT is that of gRPC (default 7400); HTTP, Raft and
gossip get the three after it. Of an even number of peers, all but the last one form the cluster, and it joins. With
--layout here the configuration names the files where they are created. With --layout packages it names those of the
packages: copy the directory to /etc/holdfast of the peer.

With --renew the peers get a CA for peers only, certified by the CA of the cluster: the leader renews their certificates
weekly. Whoever has its key can become any peer, but no user. Without it, renew certificates in time with holdfast tls
cert renew; peers warn two weeks before. To add a peer later, see holdfast
tls peer add. Certificates are written with mode 0644, keys with 0600. Nothing is overwritten.`,
		Example: `  holdfast tls init --cluster prod --peer n1=10.0.0.1 --peer n2=10.0.0.2 --peer n3=10.0.0.3 --out pki
  holdfast tls init --peer n1=a.example.org --layout packages --out pki`,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	fs := cmd.Flags()
	fs.StringVar(&f.cluster, "cluster", "default", "`name` of the cluster")
	fs.StringSliceVar(&f.peers, "peer", nil, "a peer, as `ID=HOST[:PORT]`; repeatable")
	fs.StringVar(&f.out, "out", "pki", "output `directory`, created if missing")
	fs.StringVar(&f.layout, "layout", layoutHere, "where a peer finds its files: `here or packages`")
	fs.IntVar(&f.days, "days", certDays, "validity of certificates in `days`; the CA lasts ten years")
	fs.BoolVar(&f.renew, "renew", false, "let peers renew their certificates themselves")
	return cmd
}

// caLife is the validity of the CA of a new cluster.
const caLife = 3650 * 24 * time.Hour

// peerCALife is the validity of the CA for peers.
const peerCALife = 2 * 365 * 24 * time.Hour

func (f *initFlags) run(cmd *cobra.Command) error {
	if err := peertls.CheckName("--cluster", f.cluster); err != nil {
		return usagef(cmd, "%s", err)
	}
	if f.layout != layoutHere && f.layout != layoutPackages {
		return usagef(cmd, "--layout %q: want %s or %s", f.layout, layoutHere, layoutPackages)
	}
	peers, err := parsePeers(f.peers)
	if err != nil {
		return usagef(cmd, "%s", err)
	}
	if len(peers) == 2 {
		return usagef(cmd, "two peers: want 1, 3, 5 or 7: a cluster of two stops if one of them fails")
	}
	if at := filepath.Join(f.out, "ca", keyFile); exists(at) {
		return &existsError{at, fmt.Sprintf(
			"it is there already, and nothing is overwritten: to add a peer to this cluster: "+
				"holdfast tls peer add %s --dir %s; for another cluster choose another --out", f.peers[0], f.out)}
	}
	until, err := end(cmd, f.days)
	if err != nil {
		return err
	}
	if f.abs, err = filepath.Abs(f.out); err != nil {
		return fmt.Errorf("find --out %s: %w", f.out, err)
	}
	files, err := f.files(peers, until)
	if err != nil {
		return err
	}
	if err := create(files...); err != nil {
		return err
	}
	cmd.Print(f.summary(peers))
	return nil
}

// files returns all files of the cluster.
func (f *initFlags) files(peers []initPeer, until time.Time) ([]file, error) {
	ca, err := issue.NewCA(f.cluster, time.Now().Add(caLife))
	if err != nil {
		return nil, err
	}
	sealing, err := secrets.NewKeyLine("")
	if err != nil {
		return nil, err
	}
	admin, err := ca.Client(adminName, []string{"admin"}, until)
	if err != nil {
		return nil, fmt.Errorf("make the certificate of the admin: %w", err)
	}
	in := func(elem ...string) string { return filepath.Join(append([]string{f.out}, elem...)...) }
	var peerCA *issue.CA
	if f.renew {
		if peerCA, err = ca.NewPeerCA(f.cluster, time.Now().Add(peerCALife)); err != nil {
			return nil, err
		}
	}
	gossip := gossipKey()
	files := []file{
		private(in("ca", keyFile), ca.Pair.Key), public(in("ca", certFile), ca.Pair.Cert),
		private(in(adminName, adminName+"-key.pem"), admin.Key), public(in(adminName, adminName+".pem"), admin.Cert),
		public(in(adminName, certFile), ca.Pair.Cert),
	}
	if f.renew {
		files = append(files, private(in("ca", peerKeyFile), peerCA.Pair.Key),
			public(in("ca", peerCertFile), peerCA.Pair.Cert))
	}
	for _, p := range peers {
		if f.renew {
			files = append(files, private(in(p.id, "keys", peerKeyFile), peerCA.Pair.Key),
				public(in(p.id, peerCertFile), peerCA.Pair.Cert))
		}
		pair, err := ca.Peer(f.cluster, p.id, []string{p.host}, until)
		if err != nil {
			return nil, fmt.Errorf("make the certificate of peer %s: %w", p.id, err)
		}
		files = append(files,
			private(in(p.id, "keys", "peer-key.pem"), pair.Key), public(in(p.id, "peer.pem"), pair.Cert),
			public(in(p.id, certFile), ca.Pair.Cert), private(in(p.id, "keys", "gossip.key"), []byte(gossip)),
			private(in(p.id, "keys", "secrets.keys"), []byte(sealing+"\n")),
			public(in(p.id, "config.yaml"), []byte(f.config(p, others(p, peers), founders(len(peers))))))
	}
	return files, nil
}
