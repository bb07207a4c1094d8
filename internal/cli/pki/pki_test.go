package pki

import (
	"bytes"
	"crypto/tls"
	"errors"
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"

	"github.com/holdfast-metal/holdfast/cluster/peertls"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// run runs a command line in an empty directory.
func run(t *testing.T, args ...string) (out string, err error) {
	t.Helper()
	root := &cobra.Command{Use: "holdfast", SilenceErrors: true, SilenceUsage: true}
	root.AddGroup(&cobra.Group{ID: groupSetup, Title: "Set up:"})
	root.AddCommand(TLSCommand(), GossipCommand())
	var b bytes.Buffer
	root.SetOut(&b)
	root.SetErr(&b)
	root.SetArgs(args)
	err = root.ExecuteContext(t.Context())
	return b.String(), err
}

func ok(t *testing.T, args ...string) string {
	t.Helper()
	out, err := run(t, args...)
	if err != nil {
		t.Fatalf("holdfast %s: %v", strings.Join(args, " "), err)
	}
	return out
}

// golden compares a text with a file, without the parts that differ each time.
func golden(t *testing.T, path, got string) {
	t.Helper()
	for _, r := range []struct{ pattern, with string }{
		{`\d{4}-\d{2}-\d{2}T[\d:]+Z`, "TIME"}, {`\d{4}-\d{2}-\d{2}`, "DATE"}, {`(?m)^serial    \S+`,
			"serial    SERIAL"}, {`(?m)^sha256    \S+`, "sha256    SHA256"},
	} {
		got = regexp.MustCompile(r.pattern).ReplaceAllString(got, r.with)
	}
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", path, diff)
	}
}

func TestGolden(t *testing.T) {
	dir, err := filepath.Abs("testdata")
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	check := func(name, got string) { golden(t, filepath.Join(dir, name+".golden"), got) }
	check("ca", ok(t, "tls", "ca", "create", "--cluster", "prod"))
	check("peer", ok(t, "tls", "cert", "create", "--peer", "n1", "--host", "n1.example.org,10.0.0.1", "--host",
		"localhost"))
	check("client", ok(t, "tls", "cert", "create", "--client", "--name", "bob", "--role", "operator", "--pool",
		"gpu,cpu", "--days", "30"))
	check("inspect_ca", ok(t, "tls", "inspect", "ca.pem"))
	check("inspect_peer", ok(t, "tls", "inspect", "n1.pem"))
	check("inspect_client", ok(t, "tls", "inspect", "bob.pem"))
	check("gossip", ok(t, "gossip", "keygen", "--out", "gossip.key"))
	for _, verb := range []string{"tls", "tls ca", "tls cert", "tls ca create", "tls cert create", "tls inspect",
		"tls init",
		"gossip", "gossip keygen"} {
		check("help_"+strings.ReplaceAll(verb, " ", "_"), ok(t, append(strings.Fields(verb), "--help")...))
	}
	for _, name := range []string{"ca.pem", "ca-key.pem", "n1.pem", "n1-key.pem", "bob.pem", "bob-key.pem", "gossip.key"} {
		info, err := os.Stat(name)
		want := fs.FileMode(0o644)
		if strings.Contains(name, "key") {
			want = 0o600
		}
		if err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: got %v, %v, want mode %v", name, info.Mode(), err, want)
		}
	}
	if left, _ := filepath.Glob(".*"); len(left) > 0 {
		t.Errorf("got remaining files %v", left)
	}
}

func TestNothingIsOverwritten(t *testing.T) {
	t.Chdir(t.TempDir())
	ok(t, "tls", "ca", "create")
	ok(t, "tls", "cert", "create", "--peer", "n1")
	ok(t, "gossip", "keygen", "--out", "g")
	before := contents(t)
	for _, tc := range []struct{ args, names string }{
		{"tls ca create", "ca-key.pem"},
		{"tls cert create --peer n1", "n1-key.pem"},
		{"tls cert create --client --name n1 --role viewer", "n1-key.pem"},
		{"tls cert create --client --name ca --role viewer", "ca-key.pem"},
		{"gossip keygen --out g", "write g:"},
	} {
		_, err := run(t, strings.Fields(tc.args)...)
		var coded interface{ ExitCode() int }
		if err == nil || !strings.Contains(err.Error(), tc.names) || !errors.As(err, &coded) || coded.ExitCode() != 4 {
			t.Errorf("%s: got %v, want a conflict about %s", tc.args, err, tc.names)
		}
	}
	// If only the certificate exists, no key is created beside it.
	if err := os.WriteFile("n2.pem", []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := run(t, "tls", "cert", "create", "--peer", "n2"); err == nil || !strings.Contains(err.Error(), "n2.pem") {
		t.Errorf("got error %v", err)
	}
	before["n2.pem"] = "mine"
	if diff := cmp.Diff(before, contents(t)); diff != "" {
		t.Errorf("files (-before +after):\n%s", diff)
	}
}

// contents returns all files of the directory.
func contents(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		all[path] = string(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestRefusals(t *testing.T) {
	t.Chdir(t.TempDir())
	ok(t, "tls", "ca", "create")
	ok(t, "tls", "cert", "create", "--peer", "n1")
	for _, tc := range []struct {
		args, want string
		code       int
	}{
		{"tls ca create --cluster a/b", `--cluster "a/b"`, 2},
		{"tls ca create --days 0", "--days 0", 2},
		{"tls cert create", "either --peer ID or --client", 2},
		{"tls cert create --peer n1 --client", "either --peer ID or --client", 2},
		{"tls cert create --peer n2 --role admin", "--role and --pool are for clients", 2},
		{"tls cert create --peer ../n2", `peer id "../n2"`, 2},
		{"tls cert create --peer n2 --host https://x", `host "https://x"`, 1},
		{"tls cert create --peer n2 --host x:7400", "without a port", 1},
		{"tls cert create --client --name bob", "--client wants --name and --role", 2},
		{"tls cert create --client --name ../bob --role viewer", "no slashes", 2},
		{"tls cert create --client --name bob --role root", `--role "root": want viewer, operator, admin or backup`, 2},
		{"tls cert create --client --name bob --role admin --pool gpu", "omit --pool", 2},
		{"tls cert create --client --name bob --role viewer --host x", "--host is for peers", 2},
		{"tls cert create --server", "--server wants --name", 2},
		{"tls cert create --peer n2 --ca-dir /none", "holdfast tls ca create", 1},
		{"tls cert create --peer n2 x", `unexpected argument "x"`, 2},
		{"tls certs", `unknown command "certs"`, 2},
		{"tls inspect", "want one FILE", 2},
		{"tls inspect n1-key.pem", "no PEM certificate found", 1},
	} {
		_, err := run(t, strings.Fields(tc.args)...)
		code := 1
		var coded interface{ ExitCode() int }
		if errors.As(err, &coded) {
			code = coded.ExitCode()
		}
		if err == nil || !strings.Contains(err.Error(), tc.want) || code != tc.code {
			t.Errorf("%s: got %v (exit code %d), want %q (%d)", tc.args, err, code, tc.want, tc.code)
		}
	}
	if err := os.Chmod("ca-key.pem", 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := run(t, "tls", "cert", "create", "--peer", "n3"); err == nil ||
		!strings.Contains(err.Error(), "chmod 600 ca-key.pem") {
		t.Errorf("CA key that others can read: got %v", err)
	}
}

// TestPeersAcceptNewFiles checks that a peer accepts the files that the verbs create.
func TestPeersAcceptNewFiles(t *testing.T) {
	t.Chdir(t.TempDir())
	ok(t, "tls", "ca", "create", "--cluster", "prod", "--out", "ca")
	ok(t, "tls", "cert", "create", "--peer", "n1", "--ca-dir", "ca", "--out", "peers")
	ok(t, "tls", "cert", "create", "--server", "--name", "n2", "--ca-dir", "ca", "--out", "peers")
	for _, id := range []string{"n1", "n2"} {
		s, err := peertls.Open(peertls.Config{CA: "ca/ca.pem", Cert: "peers/" + id + ".pem", Key: "peers/" + id +
			"-key.pem", PeerID: id})
		if err != nil || s.Cluster() != "prod" {
			t.Errorf("%s: %v", id, err)
		}
	}
	m, err := Material("m", "demo", []string{"n1", "n2"}, "192.0.2.1")
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"n1", "n2"} {
		cert, key := m.Peer(id)
		if _, err := peertls.Open(peertls.Config{CA: m.CA, Cert: cert, Key: key, PeerID: id}); err != nil {
			t.Errorf("files of %s: %v", id, err)
		}
	}
	admin, err := tls.LoadX509KeyPair(m.AdminCert, m.AdminKey)
	if err != nil || admin.Leaf.Subject.CommonName != "admin" || admin.Leaf.Subject.OrganizationalUnit[0] != "admin" {
		t.Errorf("files of the admin: %v", err)
	}
	if diff := cmp.Diff([]string{"--tls-ca", "m/peer-n1-ca.pem", "--tls-cert", "m/peer-n1.pem", "--tls-key",
		"m/peer-n1-key.pem", "--gossip-key-file", "m/peer-n1-gossip.key"}, m.ServerArgs("n1")); diff != "" {
		t.Errorf("flags (-want +got):\n%s", diff)
	}
	if _, err := Material("m", "demo", []string{"n1"}); err == nil {
		t.Error("got overwritten files")
	}
}

func TestGossipKeysDiffer(t *testing.T) {
	a, b := ok(t, "gossip", "keygen"), ok(t, "gossip", "keygen")
	if a == b || len(strings.TrimSpace(a)) != 44 {
		t.Errorf("got keys %q and %q", a, b)
	}
}
