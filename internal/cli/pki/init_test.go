package pki

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestInit checks the files of a new cluster, their modes and contents.
func TestInit(t *testing.T) {
	testdata, err := filepath.Abs("testdata")
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	peers := []string{"--peer", "n1=10.0.0.1", "--peer", "n2=b.example.org:8400", "--peer", "n3=2001:db8::3"}
	init := append([]string{"tls", "init", "--cluster", "prod"}, peers...)
	golden(t, filepath.Join(testdata, "init.golden"), ok(t, init...))
	packages := ok(t, append(init, "--layout", "packages", "--out", "pkg")...)
	golden(t, filepath.Join(testdata, "init_packages.golden"), packages)
	var dir string
	if dir, err = os.Getwd(); err != nil {
		t.Fatal(err)
	}
	read := func(path string) string {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	golden(t, filepath.Join(testdata, "init_config.golden"), strings.ReplaceAll(read("pki/n2/config.yaml"), dir, "DIR"))
	golden(t, filepath.Join(testdata, "init_config_packages.golden"), read("pkg/n3/config.yaml"))

	want := map[string]fs.FileMode{"ca/ca.pem": 0o644, "ca/ca-key.pem": 0o600,
		"admin/ca.pem": 0o644, "admin/admin.pem": 0o644, "admin/admin-key.pem": 0o600}
	for _, id := range []string{"n1", "n2", "n3"} {
		for name, mode := range map[string]fs.FileMode{"config.yaml": 0o644, "ca.pem": 0o644, "peer.pem": 0o644,
			"keys/peer-key.pem": 0o600, "keys/gossip.key": 0o600, "keys/secrets.keys": 0o600} {
			want[id+"/"+name] = mode
		}
	}
	got := map[string]fs.FileMode{}
	err = filepath.WalkDir("pki", func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		info, err := e.Info()
		if err == nil {
			got[strings.TrimPrefix(path, "pki/")] = info.Mode()
		}
		return err
	})
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("files: %v (-want +got):\n%s", err, diff)
	}
	for _, shared := range []string{"keys/gossip.key", "keys/secrets.keys", "ca.pem"} {
		if read("pki/n1/"+shared) != read("pki/n2/"+shared) {
			t.Errorf("%s differs between peers", shared)
		}
	}
	if read("pki/n1/keys/gossip.key") == read("pkg/n1/keys/gossip.key") {
		t.Error("two clusters have one gossip key")
	}
	for name, want := range map[string]string{"n1": "peer n1 of cluster prod", "n2": "b.example.org"} {
		if out := ok(t, "tls", "inspect", "pki/"+name+"/peer.pem"); !strings.Contains(out, want) {
			t.Errorf("certificate of %s: want %q in:\n%s", name, want, out)
		}
	}
	if _, err := run(t, init...); err == nil || !strings.Contains(err.Error(), "nothing is overwritten") {
		t.Errorf("again: got %v, want a refusal", err)
	}
}

func TestInitRefuses(t *testing.T) {
	t.Chdir(t.TempDir())
	for args, want := range map[string]string{
		"":                          "want --peer ID=HOST for each peer",
		"--peer n1":                 `--peer "n1": want ID=HOST`,
		"--peer n1=":                `--peer "n1=": want ID=HOST`,
		"--peer n1=a:0":             "want a port of 1 to 65532",
		"--peer n1=0.0.0.0":         "want the address that others use",
		"--peer n1=10.0.0.300":      "four numbers from 0 to 255",
		"--peer n1=10.0.1":          "four numbers from 0 to 255",
		"--peer n1=224.0.0.1":       "want the address of one host",
		"--peer n1=fe80::1%eth0":    "want the address of one host",
		"--peer n1=-a":              "want a name or an IP address",
		"--peer ca=a":               "choose another id",
		"--peer n1=a --peer n1=b":   "another peer has this id or address",
		"--peer n1=a --peer n2=a":   "another peer has this id or address",
		"--peer n1=a --layout rpm":  `--layout "rpm": want here or packages`,
		"--peer n1=a --peer n2=b":   "want 1, 3, 5 or 7",
		"--peer n1=a --days 0":      "--days 0: want 1 to 36500",
		"--peer n1=a --cluster a/b": `--cluster "a/b"`,
		"--peer n1=a 7":             `unexpected argument "7"`,
	} {
		_, err := run(t, append([]string{"tls", "init"}, strings.Fields(args)...)...)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", args, err, want)
		}
	}
	if left, _ := filepath.Glob("*"); len(left) > 0 {
		t.Errorf("got files %v", left)
	}
}
