package serve

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"go.yaml.in/yaml/v3"

	"github.com/holdfast-metal/holdfast/client"
	"github.com/holdfast-metal/holdfast/cluster/freeport"
	"github.com/holdfast-metal/holdfast/internal/cli/pki"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

const monitoring = "../../../deploy/monitoring"

// TestMonitoring compares dashboards and alerts with the metrics of a real peer that has used all
// its features.
func TestMonitoring(t *testing.T) {
	asked := queries(t)
	scrape := serving(t)
	var missing []string
	for end := time.Now().Add(time.Minute); ; { // polls of machines, and occasional measurements of Raft, come later
		body := scrape()
		problems, err := promlint.New(bytes.NewReader(body)).Lint() // the findings of promtool check metrics
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range problems {
			t.Errorf("%s: %s", p.Metric, p.Text)
		}
		if missing = lacks(t, body, asked); len(missing) == 0 || len(problems) > 0 || time.Now().After(end) {
			break
		}
		select {
		case <-t.Context().Done():
		case <-time.After(200 * time.Millisecond):
		}
	}
	for _, m := range missing {
		t.Error(m)
	}
}

// lacks returns the requested names that are not among the metrics.
func lacks(t *testing.T, body []byte, asked map[string][]string) []string {
	t.Helper()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{} // types of metrics by name
	for name, f := range families {
		all[name] = f.GetType().String()
	}
	var missing []string
	for where, expressions := range asked {
		for _, e := range expressions {
			for _, name := range regexp.MustCompile(`\b(?:holdfast|process|go)_[a-z0-9_]+\b`).FindAllString(e, -1) {
				if !known(all, name) {
					missing = append(missing, where+": no peer has a metric "+name)
				}
			}
		}
	}
	return missing
}

// known reports whether a series with that name is scraped.
func known(all map[string]string, name string) bool {
	if kind, ok := all[name]; ok {
		return kind != "HISTOGRAM"
	}
	for _, suffix := range []string{"_bucket", "_sum", "_count"} {
		kind := all[strings.TrimSuffix(name, suffix)]
		if strings.HasSuffix(name, suffix) && (kind == "HISTOGRAM" || kind == "SUMMARY" && suffix != "_bucket") {
			return true
		}
	}
	return false
}

// serving runs a peer with TLS and a disk, makes it work, and returns a function that reads its
// metrics.
func serving(t *testing.T) func() []byte {
	t.Helper()
	dir := t.TempDir()
	files, err := pki.Material(filepath.Join(dir, "tls"), "lab", []string{"n1"})
	if err != nil {
		t.Fatal(err)
	}
	ports, err := freeport.Claim(t.Context(), 4)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ports.Release() })
	config := filepath.Join(dir, "config.yaml")
	if err := os.WriteFile(config, fmt.Appendf(nil, "providers: {fake: {kind: fake}}\narchive: {url: %q}\n", "file://"+
		filepath.Join(dir, "archive")), 0o600); err != nil {
		t.Fatal(err)
	}
	const host = "127.0.0.1"
	api, web := ports.Address(host), ports.Address(host)
	cmd := Command("test")
	cmd.SetArgs(append(files.ServerArgs("n1"), "--config", config, "--node-id", "n1", "--data-dir",
		filepath.Join(dir, "data"), "--bootstrap-expect", "1", "--log-level", "error",
		"--grpc-addr", api, "--http-addr", web, "--raft-addr", ports.Address(host), "--gossip-addr", ports.Address(host)))
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- cmd.ExecuteContext(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("run the peer: %v", err)
		}
	})
	admin, err := client.LoadTLS(files.CA, files.AdminCert, files.AdminKey)
	if err != nil {
		t.Fatal(err)
	}
	work(t, client.Config{Addrs: []string{api}, TLS: admin, Timeout: 30 * time.Second})
	anonymous := admin.Clone()
	anonymous.Certificates, anonymous.GetClientCertificate = nil, nil
	// The metrics count this refusal.
	if code, _ := get(t, anonymous, "https://"+web+"/metrics"); code != http.StatusUnauthorized {
		t.Errorf("metrics without credentials: got %d, want %d", code, http.StatusUnauthorized)
	}
	return func() []byte {
		code, body := get(t, admin, "https://"+web+"/metrics")
		if code != http.StatusOK {
			t.Fatalf("metrics: got %d, want %d", code, http.StatusOK)
		}
		return body
	}
}

func get(t *testing.T, as *tls.Config, url string) (code int, body []byte) {
	t.Helper()
	way := &http.Transport{TLSClientConfig: as}
	defer way.CloseIdleConnections()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := way.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if body, err = io.ReadAll(res.Body); err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, body
}

// work registers a machine and reboots it.
func work(t *testing.T, cfg client.Config) {
	t.Helper()
	c, err := client.Dial(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	for {
		_, err = c.Machines().RegisterMachine(ctx,
			&holdfastv1.RegisterMachineRequest{Machine: &holdfastv1.Machine{MachineId: "m1",
				Spec: &holdfastv1.MachineSpec{Provider: "fake"}}})
		if err == nil {
			break
		}
		select {
		case <-ctx.Done():
			t.Fatalf("wait for the peer: %v", err)
		case <-time.After(20 * time.Millisecond):
		}
	}
	// There is no listener, and the outcome is not waited for.
	hook := &holdfastv1.Webhook{Name: "nobody", Url: "http://127.0.0.1:1/"}
	if _, err := c.Webhooks().PutWebhook(ctx, &holdfastv1.PutWebhookRequest{Webhook: hook}); err != nil {
		t.Fatal(err)
	}
	run, err := c.Runs().StartRun(ctx, &holdfastv1.StartRunRequest{MachineId: "m1", RequestId: "r1", Type: "REBOOT"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.WaitRun(ctx, run.GetRunId()); err != nil {
		t.Fatal(err)
	}
}

// alert is one rule of alerts.yml.
type alert struct {
	Alert       string            `yaml:"alert"`
	Expr        string            `yaml:"expr"`
	Labels      map[string]string `yaml:"labels"`
	Annotations map[string]string `yaml:"annotations"`
}

func alerts(t *testing.T) []alert {
	t.Helper()
	var file struct {
		Groups []struct {
			Rules []alert `yaml:"rules"`
		} `yaml:"groups"`
	}
	if err := yaml.Unmarshal(read(t, monitoring+"/alerts.yml"), &file); err != nil {
		t.Fatal(err)
	}
	var all []alert
	for _, g := range file.Groups {
		all = append(all, g.Rules...)
	}
	if len(all) == 0 {
		t.Fatal("got no alerts")
	}
	return all
}

func read(t *testing.T, file string) []byte {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// dashboard is the checked part of a Grafana dashboard.
type dashboard struct {
	UID    string `json:"uid"`
	Panels []struct {
		ID      int    `json:"id"`
		Type    string `json:"type"`
		Title   string `json:"title"`
		GridPos struct{ X, Y, W, H int }
		Targets []struct {
			Expr string `json:"expr"`
		} `json:"targets"`
	} `json:"panels"`
}

// queries returns the queries of dashboards and alerts, by position.
func queries(t *testing.T) map[string][]string {
	t.Helper()
	all := map[string][]string{}
	for _, a := range alerts(t) {
		all[a.Alert] = []string{a.Expr}
	}
	files, err := filepath.Glob(monitoring + "/dashboards/*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("list dashboards: got none: %v", err)
	}
	uids := map[string]bool{}
	for _, file := range files {
		var d dashboard
		if err := json.Unmarshal(read(t, file), &d); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		if d.UID == "" || uids[d.UID] {
			t.Errorf("%s: uid %q is empty or not unique", file, d.UID)
		}
		uids[d.UID] = true
		ids := map[int]bool{}
		taken := map[[2]int]string{}
		for _, p := range d.Panels {
			where := fmt.Sprintf("%s: %s", filepath.Base(file), p.Title)
			if ids[p.ID] || p.Title == "" || p.Type != "row" && len(p.Targets) == 0 {
				t.Errorf("%s: its id is not unique, or it has no title or no query", where)
			}
			ids[p.ID] = true
			for x := range p.GridPos.W {
				for y := range p.GridPos.H {
					at := [2]int{p.GridPos.X + x, p.GridPos.Y + y}
					if taken[at] != "" || at[0] >= 24 {
						t.Errorf("%s: it has no size, or overlaps %q", where, taken[at])
					}
					taken[at] = p.Title
				}
			}
			for _, q := range p.Targets {
				all[where] = append(all[where], q.Expr)
			}
		}
	}
	return all
}

// TestAlertsHaveRunbooks checks that each alert has a section in docs/runbooks/alerts.md, and each
// section an alert.
func TestAlertsHaveRunbooks(t *testing.T) {
	const page = "https://github.com/holdfast-metal/holdfast/blob/main/docs/runbooks/alerts.md#"
	anchors := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^## (\S+)$`).FindAllSubmatch(read(t, "../../../docs/runbooks/alerts.md"),
		-1) {
		anchors[strings.ToLower(string(m[1]))] = true
	}
	for _, a := range alerts(t) {
		anchor, ok := strings.CutPrefix(a.Annotations["runbook_url"], page)
		if !ok || anchor != strings.ToLower(a.Alert) || !anchors[anchor] {
			t.Errorf("%s: runbook_url %q is no section of docs/runbooks/alerts.md", a.Alert, a.Annotations["runbook_url"])
		}
		delete(anchors, anchor)
		if a.Annotations["summary"] == "" || a.Annotations["description"] == "" ||
			!slices.Contains([]string{"critical", "warning", "info"}, a.Labels["severity"]) {
			t.Errorf("%s: got no summary, description or severity", a.Alert)
		}
	}
	for anchor := range anchors {
		t.Errorf("docs/runbooks/alerts.md has a section %s without an alert", anchor)
	}
}

// TestAlertRules runs promtool's tests, which have series without problems, and one with a problem
// for each alert.
func TestAlertRules(t *testing.T) {
	tests := slices.Concat(read(t, monitoring+"/alerts_test.yml"), read(t, monitoring+"/alerts_days_test.yml"))
	for _, a := range alerts(t) {
		if !bytes.Contains(tests, []byte("  - name: "+a.Alert+"\n")) {
			t.Errorf("%s: got no test", a.Alert)
		}
	}
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("NOT TESTED: promtool is missing (Debian: apt-get install prometheus)")
	}
	for _, args := range [][]string{{"check", "rules", "alerts.yml"},
		{"test", "rules", "alerts_test.yml", "alerts_days_test.yml"}} {
		cmd := exec.CommandContext(t.Context(), promtool, args...)
		cmd.Dir = monitoring
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
}
