package pki

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"

	"github.com/holdfast-metal/holdfast/cluster/keyfile"
)

// addFlags holds the flags of "tls peer add".
type addFlags struct {
	initFlags
	like string
}

func peerAdd() *cobra.Command {
	var f addFlags
	cmd := &cobra.Command{
		Use:                   "add ID=HOST[:PORT] [--dir DIR] [--like ID] [--layout here|packages] [--days N]",
		DisableFlagsInUseLine: true,
		Short:                 "Create the files of another peer of a cluster that tls init made",
		Long: `Create the files of another peer, in the directory that holdfast tls init made: its certificate, signed by the CA that is
there, copies of the keys of gossip and secrets, and a configuration that joins the cluster.

Settings that the configuration of --like has beyond those of tls init, such as providers, are copied. Nothing is
overwritten. The command prints how to start the peer.`,
		Example: `  holdfast tls peer add n4=10.0.0.4
  holdfast tls peer add n4=d.example.org:8400 --dir /root/pki --like n1`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usagef(cmd, "want one ID=HOST[:PORT]")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd, args[0]) },
	}
	fs := cmd.Flags()
	fs.StringVar(&f.out, "dir", "pki", "`directory` that tls init made")
	fs.StringVar(&f.like, "like", "", "`id` of the peer whose keys and settings are copied (default: the first one)")
	fs.StringVar(&f.layout, "layout", "", "where the peer finds its files: `here or packages` (default: as --like)")
	fs.IntVar(&f.days, "days", certDays, "validity of the certificate in `days`")
	return cmd
}

// sibling is a peer of the cluster that has its files.
type sibling struct {
	id     string
	config string         // YAML
	keys   map[string]any // the same, parsed
}

// siblings returns the peers whose files are in the directory, by id.
func (f *addFlags) siblings() ([]sibling, error) {
	entries, err := os.ReadDir(f.out)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("find the files of the cluster: there is no directory %s: name it with --dir", f.out)
	}
	if err != nil {
		return nil, fmt.Errorf("find the files of the cluster: %w", err)
	}
	var all []sibling
	for _, e := range entries {
		path := filepath.Join(f.out, e.Name(), "config.yaml")
		b, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) || !e.IsDir() {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("read the configuration of peer %s: %w", e.Name(), err)
		}
		s := sibling{id: e.Name(), config: string(b)}
		if err := yaml.Unmarshal(b, &s.keys); err != nil {
			return nil, fmt.Errorf("read configuration %s: %w", path, err)
		}
		all = append(all, s)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("find the files of the cluster: %s has no directory of a peer with a config.yaml: "+
			"name the directory that tls init made with --dir", f.out)
	}
	return all, nil
}

// text returns a setting of the configuration.
func (s sibling) text(key string) string {
	v, _ := s.keys[key].(string)
	return v
}

// made are the settings that tls init writes.
var made = []string{"node_id", "data_dir", "grpc_addr", "http_addr", "raft_addr", "gossip_addr", "bootstrap_expect",
	"join", "tls_ca", "tls_cert", "tls_key",
	"tls_peer_ca", "tls_peer_ca_key", "gossip_key_file", "secrets_key_file", "advertise_grpc", "advertise_http",
	"advertise_raft", "advertise_gossip", "netboot_addr"}

// more returns the other settings, as they are written.
func (s sibling) more() string {
	var b strings.Builder
	copying := false
	for line := range strings.Lines(s.config) {
		if line[0] != ' ' && line[0] != '-' && line[0] != '#' && strings.TrimSpace(line) != "" {
			key, _, _ := strings.Cut(line, ":")
			copying = !slices.Contains(made, strings.ReplaceAll(strings.TrimSpace(key), "-", "_"))
		}
		if copying {
			b.WriteString(line)
		}
	}
	return b.String()
}

func (f *addFlags) run(cmd *cobra.Command, spec string) error {
	peers, err := parsePeers([]string{spec})
	if err != nil {
		return usagef(cmd, "%s", strings.ReplaceAll(err.Error(), "--peer ", ""))
	}
	p := peers[0]
	if f.layout != "" && f.layout != layoutHere && f.layout != layoutPackages {
		return usagef(cmd, "--layout %q: want %s or %s", f.layout, layoutHere, layoutPackages)
	}
	until, err := end(cmd, f.days)
	if err != nil {
		return err
	}
	if f.abs, err = filepath.Abs(f.out); err != nil {
		return fmt.Errorf("find --dir %s: %w", f.out, err)
	}
	all, err := f.siblings()
	if err != nil {
		return err
	}
	like := all[0]
	if i := slices.IndexFunc(all, func(s sibling) bool { return s.id == f.like }); i >= 0 {
		like = all[i]
	} else if f.like != "" {
		return usagef(cmd, "--like %q: %s has no files of this peer", f.like, f.out)
	}
	var join []string
	for _, s := range all {
		if s.id == p.id {
			return usagef(cmd, "peer %s has its files already: %s (for a new certificate: holdfast tls cert renew %s)",
				p.id, filepath.Join(f.out, p.id), filepath.Join(f.out, p.id, "peer.pem"))
		}
		for _, key := range []string{"grpc_addr", "http_addr", "raft_addr", "gossip_addr"} {
			for i := range 4 {
				if s.text(key) == p.at(i) {
					return usagef(cmd, "%s: peer %s has the address %s: choose another port", spec, s.id, p.at(i))
				}
			}
		}
		at := cmp.Or(s.text("advertise_gossip"), s.text("gossip_addr"))
		if at == "" {
			return fmt.Errorf("read the configuration of peer %s: it has no gossip_addr", s.id)
		}
		join = append(join, at)
	}
	if f.layout == "" {
		f.layout = layoutHere
		if strings.HasPrefix(like.text("tls_key"), "credential:") {
			f.layout = layoutPackages
		}
	}
	ca, err := loadCA(filepath.Join(f.out, "ca"))
	if err != nil {
		return err
	}
	if f.cluster = ca.Cluster(); f.cluster == "" {
		return fmt.Errorf("use the CA in %s: it names no cluster: make the certificate with holdfast tls cert create", f.out)
	}
	pair, err := ca.Peer(f.cluster, p.id, []string{p.host}, until)
	if err != nil {
		return fmt.Errorf("make the certificate of peer %s: %w", p.id, err)
	}
	in := func(id string, elem ...string) string { return filepath.Join(append([]string{f.out, id}, elem...)...) }
	trust, err := keyfile.Read(in(like.id, certFile))
	if err != nil {
		return err
	}
	gossip, err := keyfile.ReadPrivate(in(like.id, "keys", "gossip.key"))
	if err != nil {
		return err
	}
	sealing, err := keyfile.ReadPrivate(in(like.id, "keys", "secrets.keys"))
	if err != nil {
		return err
	}
	var more []file
	if f.renew = like.text("tls_peer_ca") != ""; f.renew {
		cert, err := keyfile.Read(in(like.id, peerCertFile))
		if err != nil {
			return err
		}
		key, err := keyfile.ReadPrivate(in(like.id, "keys", peerKeyFile))
		if err != nil {
			return err
		}
		more = []file{public(in(p.id, peerCertFile), cert), private(in(p.id, "keys", peerKeyFile), key)}
	}
	err = create(append(more, private(in(p.id, "keys", "peer-key.pem"), pair.Key), public(in(p.id, "peer.pem"), pair.Cert),
		public(in(p.id, certFile), trust), private(in(p.id, "keys", "gossip.key"), gossip),
		private(in(p.id, "keys", "secrets.keys"), sealing),
		public(in(p.id, "config.yaml"), []byte(f.config(p, join, 0)+like.more())))...)
	if err != nil {
		return err
	}
	cmd.Printf("%s  the files of peer %s at %s\nnext:\n%s", in(p.id), p.id, p.host, f.start(p))
	cmd.Printf("  holdfast cluster status\nif it waits there: holdfast peer admit %s\n", p.id)
	return nil
}
