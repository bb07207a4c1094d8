package integrations

import (
	"encoding/json"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const site = `pool_id: gpu
---
machine_id: m-1
labels: {env: prod}
spec: {rack: r7, pool: gpu, ssh_endpoint: "admin@10.0.0.1:2222"}
---
machine_id: m-2
spec: {rack: r8, ssh_endpoint: "10.0.0.2"}
`

// withSite starts a peer with the machines of site.
func withSite(t *testing.T) *lab {
	t.Helper()
	l := newLab(t)
	if err := os.WriteFile(filepath.Join(l.dir, "site.yaml"), []byte(site), 0o600); err != nil {
		t.Fatal(err)
	}
	l.serve()
	l.run("holdfast", "apply", "-f", "site.yaml")
	return l
}

// TestOtherTools sends the requests of other tools to one peer.
func TestOtherTools(t *testing.T) {
	l := withSite(t)
	t.Run("Prometheus", func(t *testing.T) { prometheus(t, l) })
	t.Run("Ansible", func(t *testing.T) {
		if _, err := exec.LookPath("ansible-inventory"); err != nil {
			t.Skip("NOT TESTED: ansible-inventory not found (Debian: apt-get install ansible-core)")
		}
		t.Run("inventory", func(t *testing.T) { inventory(t, l) })
		t.Run("lookup", func(t *testing.T) { lookup(t, l) })
		t.Run("preflight", func(t *testing.T) { preflight(t, l) })
	})
}

func prometheus(t *testing.T, l *lab) {
	resp, err := http.Get("http://" + l.http + "/api/v1/sd/prometheus?filter=" + url.QueryEscape(`pool = "gpu"`))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	var got []struct {
		Targets []string
		Labels  map[string]string
	}
	if err := json.NewDecoder(resp.Body).Decode(&got); err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("got %s: %v", resp.Status, err)
	}
	if len(got) != 1 || !cmp.Equal(got[0].Targets, []string{"10.0.0.1:9100"}) ||
		got[0].Labels["__meta_holdfast_rack"] != "r7" {
		t.Errorf("got %v, want only m-1", got)
	}
}
