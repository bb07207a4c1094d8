package pki

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-metal/holdfast/cluster/keyfile"
	"github.com/holdfast-metal/holdfast/cluster/peertls"
	"github.com/holdfast-metal/holdfast/cluster/peertls/issue"
)

// certFlags holds the flags of "tls cert create".
type certFlags struct {
	peer           string
	server, client bool
	name           string
	hosts          []string
	roles, pools   []string
	cluster        string
	caDir, out     string
	days           int
}

func certCreate() *cobra.Command {
	var f certFlags
	cmd := &cobra.Command{
		Use: "create {--peer ID [--host NAME]… | --client --name USER --role ROLE [--pool POOL]…} " +
			"[--ca-dir DIR] [--out DIR] [--days N]",
		DisableFlagsInUseLine: true, Args: noArgs,
		Short: "Create a certificate for a peer or a client: NAME.pem and NAME-key.pem",
		Long: `Create a certificate, signed by the CA in --ca-dir.

For a peer: it contains spiffe://holdfast/CLUSTER/peer/ID, which identifies it to other peers, and the --host names and
addresses that clients use, besides localhost. It is a server and a client certificate. --server --name ID equals --peer ID.

For a client: the common name is the user, the organizational unit is the role; "operator@gpu" is a role in pool gpu only. A
client certificate is never accepted as that of a peer, whatever its name.`,
		Example: `  holdfast tls cert create --peer n1 --host n1.example.org --host 10.0.0.1
  holdfast tls cert create --client --name alice --role admin
  holdfast tls cert create --client --name bob --role operator --pool gpu --days 30`,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	fs := cmd.Flags()
	fs.StringVar(&f.peer, "peer", "", "create it for the peer with this `id` (its --node-id)")
	fs.BoolVar(&f.server, "server", false, "create it for the peer named by --name")
	fs.BoolVar(&f.client, "client", false, "create it for a person or a tool")
	fs.StringVar(&f.name, "name", "", "`name` of the user, or of the peer with --server")
	fs.StringSliceVar(&f.hosts, "host", nil, "`name or address` that clients use for the peer; repeatable")
	fs.StringSliceVar(&f.roles, "role", nil,
		"`role` of the client: viewer, operator, admin or backup (saves snapshots, nothing else)")
	fs.StringSliceVar(&f.pools, "pool", nil, "`pool` that the role applies to; repeatable (default: all)")
	fs.StringVar(&f.cluster, "cluster", "", "`name` of the peer's cluster (default: the one of the CA)")
	fs.StringVar(&f.caDir, "ca-dir", "", "`directory` with ca.pem and ca-key.pem (default: --out)")
	fs.StringVar(&f.out, "out", ".", "output `directory`, created if missing")
	fs.IntVar(&f.days, "days", certDays, "validity in `days`, at most that of the CA")
	return cmd
}

// check normalizes the flags and returns an error if they are invalid.
func (f *certFlags) check(cmd *cobra.Command) error {
	if f.server {
		if f.peer != "" || f.name == "" {
			return usagef(cmd, "--server wants --name, and no --peer")
		}
		f.peer = f.name
	}
	switch {
	case f.client == (f.peer != ""):
		return usagef(cmd, "want either --peer ID or --client")
	case f.client && (f.name == "" || len(f.roles) == 0):
		return usagef(cmd, "--client wants --name and --role")
	case f.client && len(f.hosts) > 0:
		return usagef(cmd, "--host is for peers: a client has no address in its certificate")
	case f.peer != "" && len(f.roles)+len(f.pools) > 0:
		return usagef(cmd, "--role and --pool are for clients")
	case !f.client && !f.server && f.name != "":
		return usagef(cmd, "--name is for clients: a peer's name is its --peer")
	}
	if !f.client {
		if err := peertls.CheckName("peer id", f.peer); err != nil {
			return usagef(cmd, "%s", err)
		}
		return nil
	}
	if strings.ContainsAny(f.name, "/\\\x00") || strings.HasPrefix(f.name, ".") || strings.HasPrefix(f.name, "-") {
		return usagef(cmd, "--name %q: it becomes the name of a file: no slashes, and no dot or dash at its start",
			f.name)
	}
	for _, r := range f.roles {
		if !slices.Contains([]string{"viewer", "operator", "admin", "backup"}, r) {
			return usagef(cmd, "--role %q: want viewer, operator, admin or backup", r)
		}
		if (r == "admin" || r == "backup") && len(f.pools) > 0 {
			return usagef(cmd, "--role %s is for all pools: omit --pool, or use operator", r)
		}
	}
	for _, p := range f.pools {
		if p == "" || strings.ContainsAny(p, " ,@") {
			return usagef(cmd, "--pool %q: that is not the name of a pool", p)
		}
	}
	return nil
}

// units returns the organizational units of a client: its roles, by pool where they are scoped.
func (f *certFlags) units() []string {
	if len(f.pools) == 0 {
		return f.roles
	}
	var units []string
	for _, r := range f.roles {
		for _, p := range f.pools {
			units = append(units, r+"@"+p)
		}
	}
	return units
}

func (f *certFlags) run(cmd *cobra.Command) error {
	if err := f.check(cmd); err != nil {
		return err
	}
	until, err := end(cmd, f.days)
	if err != nil {
		return err
	}
	f.caDir = cmp.Or(f.caDir, f.out)
	ca, err := loadCA(f.caDir)
	if err != nil {
		return err
	}
	name, what := f.peer, "peer "+f.peer
	var pair issue.Pair
	if f.client {
		name, what = f.name, fmt.Sprintf("user %s as %s", f.name, strings.Join(f.units(), ", "))
		pair, err = ca.Client(f.name, f.units(), until)
	} else {
		if f.cluster == "" {
			f.cluster = ca.Cluster()
		}
		if f.cluster == "" {
			return usagef(cmd, "the CA in %s names no cluster: give --cluster", f.caDir)
		}
		what += " of cluster " + f.cluster
		pair, err = ca.Peer(f.cluster, f.peer, f.hosts, until)
	}
	if err != nil {
		return fmt.Errorf("make the certificate of %s: %w", what, err)
	}
	cert, key := filepath.Join(f.out, name+".pem"), filepath.Join(f.out, name+"-key.pem")
	if err := create(private(key, pair.Key), public(cert, pair.Cert)); err != nil {
		return err
	}
	if until.After(ca.Cert.NotAfter) {
		until = ca.Cert.NotAfter
	}
	cmd.Printf("%s  the certificate of %s, until %s\n", cert, what, date(until))
	cmd.Printf("%s  its key\n", key)
	return nil
}

func loadCA(dir string) (*issue.CA, error) {
	var p issue.Pair
	var err error
	if p.Cert, err = keyfile.Read(filepath.Join(dir, certFile)); err == nil {
		p.Key, err = keyfile.ReadPrivate(filepath.Join(dir, keyFile))
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf(
			"find the CA: %w: create one with: holdfast tls ca create, or name its directory with --ca-dir", err)
	}
	if err != nil {
		return nil, err
	}
	ca, err := issue.LoadCA(p)
	if err != nil {
		return nil, fmt.Errorf("use the CA in %s: %w", dir, err)
	}
	if time.Now().After(ca.Cert.NotAfter) {
		return nil, fmt.Errorf("use the CA in %s: it expired at %s: create a new one with: holdfast tls ca create",
			dir, date(ca.Cert.NotAfter))
	}
	return ca, nil
}
