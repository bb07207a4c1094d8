package pki

import (
	"os"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

func readYAML(t *testing.T, path string) map[string]any {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var m map[string]any
	if err := yaml.Unmarshal(b, &m); err != nil {
		t.Fatal(err)
	}
	return m
}

// A number of peers that cannot form a cluster is refused or leaves the last ones to join.
func TestInitNumbers(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, tt := range []struct {
		peers, want int // the founders; 0: refused
	}{{1, 1}, {2, 0}, {3, 3}, {4, 3}, {5, 5}, {6, 5}, {7, 7}, {8, 7}, {9, 7}} {
		args := []string{"tls", "init", "--out", "pki-" + string(rune('0'+tt.peers))}
		for i := range tt.peers {
			id := string(rune('1' + i))
			args = append(args, "--peer", "n"+id+"=10.0.0."+id)
		}
		_, err := run(t, args...)
		if tt.want == 0 {
			if err == nil || !strings.Contains(err.Error(), "1, 3, 5 or 7") {
				t.Errorf("%d peers: got %v, want a refusal with the numbers", tt.peers, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%d peers: %v", tt.peers, err)
			continue
		}
		if got := readYAML(t, args[3]+"/n1/config.yaml")["bootstrap_expect"]; got != tt.want {
			t.Errorf("%d peers: bootstrap_expect: got %v, want %d", tt.peers, got, tt.want)
		}
	}
}

func TestPeerAdd(t *testing.T) {
	t.Chdir(t.TempDir())
	ok(t, "tls", "init", "--cluster", "prod", "--peer", "n1=10.0.0.1", "--peer", "n2=10.0.0.2", "--peer", "n3=10.0.0.3")
	_, err := run(t, "tls", "init", "--peer", "n4=10.0.0.4")
	if err == nil || !strings.Contains(err.Error(), "holdfast tls peer add n4=") {
		t.Errorf("init again: got %v, want the command that adds a peer", err)
	}
	f, err := os.OpenFile("pki/n2/config.yaml", os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString("admit_peers: manual\nproviders:\n  fake: {kind: fake}\n"); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	out := ok(t, "tls", "peer", "add", "n4=10.0.0.4", "--like", "n2")
	for _, want := range []string{"holdfast server --config pki/n4/config.yaml", "holdfast peer admit n4"} {
		if !strings.Contains(out, want) {
			t.Errorf("want %q in:\n%s", want, out)
		}
	}
	c := readYAML(t, "pki/n4/config.yaml")
	if _, has := c["bootstrap_expect"]; has || c["admit_peers"] != "manual" || c["providers"] == nil ||
		c["gossip_addr"] != "10.0.0.4:7403" || len(c["join"].([]any)) != 3 {
		t.Errorf("configuration: got %v", c)
	}
	for _, name := range []string{"keys/gossip.key", "keys/secrets.keys", "ca.pem"} {
		a, _ := os.ReadFile("pki/n2/" + name)
		b, err := os.ReadFile("pki/n4/" + name)
		if err != nil || string(a) != string(b) {
			t.Errorf("%s differs (%v)", name, err)
		}
	}
	if out := ok(t, "tls", "inspect", "pki/n4/peer.pem"); !strings.Contains(out, "peer n4 of cluster prod") {
		t.Errorf("certificate: got %s", out)
	}
	for args, want := range map[string]string{
		"n4=10.0.0.5":              "has its files already",
		"n5=10.0.0.1":              "has the address",
		"n5":                       "want ID=HOST",
		"n5=10.0.0.5 --like n9":    "no files of this peer",
		"n5=10.0.0.5 --dir x":      "--dir",
		"n5=10.0.0.5 --layout rpm": "want here or packages",
	} {
		_, err := run(t, append([]string{"tls", "peer", "add"}, strings.Fields(args)...)...)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", args, err, want)
		}
	}
}

func TestCertRenew(t *testing.T) {
	t.Chdir(t.TempDir())
	ok(t, "tls", "init", "--cluster", "prod", "--peer", "n1=a.example.org")
	serial := func(path string) string {
		_, after, _ := strings.Cut(ok(t, "tls", "inspect", path), "serial")
		return after
	}
	for path, want := range map[string]string{
		"pki/n1/peer.pem": "a.example.org", "pki/admin/admin.pem": "user admin, admin",
	} {
		was := serial(path)
		ok(t, "tls", "cert", "renew", path, "--days", "30")
		if got := ok(t, "tls", "inspect", path); !strings.Contains(got, want) || !strings.Contains(got, "29 days left") {
			t.Errorf("%s: want %q and 29 days in:\n%s", path, want, got)
		}
		if serial(path) == was {
			t.Errorf("%s: got the old certificate", path)
		}
	}
	if _, err := run(t, "tls", "cert", "renew", "pki/ca/ca.pem"); err == nil || !strings.Contains(err.Error(), "CA") {
		t.Errorf("renew the CA: got %v", err)
	}
}
