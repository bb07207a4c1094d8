package pki

import (
	"cmp"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-metal/holdfast/cluster/keyfile"
	"github.com/holdfast-metal/holdfast/cluster/peertls"
	"github.com/holdfast-metal/holdfast/cluster/peertls/issue"
)

// certDays is the default validity of certificates: months, because a person renews them.
const certDays = 90

func certRenew() *cobra.Command {
	var key, caDir string
	var days int
	cmd := &cobra.Command{
		Use:                   "renew CERTIFICATE [--key FILE] [--ca-dir DIR] [--days N]",
		DisableFlagsInUseLine: true,
		Short:                 "Replace a certificate and its key by new ones for the same peer or client",
		Long: `Replace a certificate and its key by new ones with the same name, hosts and roles, signed by the CA in --ca-dir. Running peers
take the files up within seconds, without a restart.

The key is NAME-key.pem beside NAME.pem, or in the directory keys beside it. The CA is looked for beside the certificate
and in ca beside its directory, where tls init puts it.`,
		Example: `  holdfast tls cert renew pki/n1/peer.pem
  holdfast tls cert renew alice.pem --ca-dir /root/holdfast-ca --days 30`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usagef(cmd, "want one CERTIFICATE")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			until, err := end(cmd, days)
			if err != nil {
				return err
			}
			return renew(cmd, args[0], key, caDir, until)
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&key, "key", "", "`file` with its key, which is replaced too")
	fs.StringVar(&caDir, "ca-dir", "", "`directory` with ca.pem and ca-key.pem")
	fs.IntVar(&days, "days", certDays, "validity in `days`, at most that of the CA")
	return cmd
}

// firstOf returns the first of the files that is there.
func firstOf(paths ...string) (string, bool) {
	for _, p := range paths {
		if _, err := os.Stat(p); err == nil {
			return p, true
		}
	}
	return "", false
}

func renew(cmd *cobra.Command, path, key, caDir string, until time.Time) error {
	b, err := keyfile.Read(path)
	if err != nil {
		return err
	}
	certs, err := peertls.ParseCerts(b)
	if err != nil {
		return fmt.Errorf("renew %s: %w", path, err)
	}
	old := certs[0]
	dir, name := filepath.Dir(path), strings.TrimSuffix(filepath.Base(path), ".pem")+"-key.pem"
	var ok bool
	if key, ok = firstOf(cmp.Or(key, filepath.Join(dir, name)), filepath.Join(dir, "keys", name)); !ok {
		return usagef(cmd, "%s: found no %s: name it with --key", path, name)
	}
	if caDir == "" {
		at, ok := firstOf(filepath.Join(dir, keyFile), filepath.Join(dir, "..", "ca", keyFile))
		if !ok {
			return usagef(cmd, "%s: found no CA with its key beside it: name its directory with --ca-dir", path)
		}
		caDir = filepath.Dir(at)
	}
	ca, err := loadCA(caDir)
	if err != nil {
		return err
	}
	pair, what, err := again(ca, old, until)
	if err != nil {
		return fmt.Errorf("renew %s: %w", path, err)
	}
	if err := errors.Join(replace(private(key, pair.Key)), replace(public(path, pair.Cert))); err != nil {
		return err
	}
	if until.After(ca.Cert.NotAfter) {
		until = ca.Cert.NotAfter
	}
	cmd.Printf("%s  the certificate of %s, until %s\n%s  its key\n", path, what, date(until), key)
	return nil
}

// again issues a certificate like an old one.
func again(ca *issue.CA, old *x509.Certificate, until time.Time) (pair issue.Pair, what string, err error) {
	if old.IsCA {
		return pair, "", errors.New("it is a CA: docs/security.md has the steps to replace one")
	}
	cluster, id, peer := peertls.PeerID(old)
	if !peer {
		name := old.Subject.CommonName
		pair, err = ca.Client(name, old.Subject.OrganizationalUnit, until)
		return pair, "user " + printable(name), err
	}
	if own := ca.Cluster(); own != "" && own != cluster {
		return pair, "", fmt.Errorf("it is of cluster %s, but the CA is that of cluster %s", cluster, own)
	}
	hosts := old.DNSNames
	for _, ip := range old.IPAddresses {
		hosts = append(hosts, ip.String())
	}
	pair, err = ca.Peer(cluster, id, hosts, until)
	return pair, fmt.Sprintf("peer %s of cluster %s", id, cluster), err
}

// replace writes a file in place of an old one, atomically.
func replace(f file) error {
	next := f
	next.path += ".new"
	if err := os.Remove(next.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("write %s: %w", f.path, err)
	}
	if err := createOne(next); err != nil {
		return err
	}
	if err := os.Rename(next.path, f.path); err != nil {
		return fmt.Errorf("write %s: %w", f.path, err)
	}
	return nil
}
