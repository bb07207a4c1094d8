package compat

import (
	"context"
	"io"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/holdfast-metal/holdfast/client"
	"github.com/holdfast-metal/holdfast/internal/localcluster"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// patience bounds the work of the peer, and the wait for metrics that come late.
const patience = 3 * time.Minute

// metrics runs a peer that reboots a machine, and returns the names of its metrics with their types
// and labels, once enough reports that they are all there or patience has ended.
func metrics(t *testing.T, holdfast string, enough func(lines []string) bool) []string {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), patience)
	defer stop()
	hw, err := localcluster.StartFakeHardware(ctx, holdfast, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = hw.Close() })
	c, err := localcluster.Start(ctx, localcluster.Config{Binary: holdfast, Dir: t.TempDir(), Peers: 1, Insecure: true,
		FakeEndpoint: hw.Endpoint})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	if err := c.WaitReady(ctx); err != nil {
		t.Fatal(err)
	}
	reboot(ctx, t, c)
	seen := map[string]bool{}
	for {
		for _, line := range series(t, scrape(t.Context(), t, "http://"+c.Peers()[0].HTTPAddr+"/metrics")) {
			seen[line] = true
		}
		if all := slices.Sorted(maps.Keys(seen)); enough(all) {
			return all
		}
		select {
		case <-ctx.Done(): // the comparison names those that are missing
			return slices.Sorted(maps.Keys(seen))
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// reboot registers a machine and reboots it.
func reboot(ctx context.Context, t *testing.T, c *localcluster.Cluster) {
	t.Helper()
	cl, err := client.Dial(client.Config{Addrs: c.Addrs(), Timeout: 30 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cl.Close() }()
	if _, err := cl.Machines().RegisterMachine(ctx, &holdfastv1.RegisterMachineRequest{Machine: &holdfastv1.Machine{
		MachineId: "m1", Spec: &holdfastv1.MachineSpec{Provider: "fake"}}}); err != nil {
		t.Fatal(err)
	}
	// Nobody listens, and the outcome is not waited for.
	hook := &holdfastv1.Webhook{Name: "nobody", Url: "http://127.0.0.1:1/"}
	if _, err := cl.Webhooks().PutWebhook(ctx, &holdfastv1.PutWebhookRequest{Webhook: hook}); err != nil {
		t.Fatal(err)
	}
	run, err := cl.Runs().StartRun(ctx, &holdfastv1.StartRunRequest{MachineId: "m1", RequestId: "r1", Type: "REBOOT"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := cl.WaitRun(ctx, run.GetRunId()); err != nil {
		t.Fatal(err)
	}
}

func scrape(ctx context.Context, t *testing.T, url string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK {
		t.Fatalf("read metrics: got %s: %v", res.Status, err)
	}
	return string(body)
}

// series returns a line for each of our metrics with its type, and one for each of its labels.
func series(t *testing.T, text string) []string {
	t.Helper()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for name, f := range families {
		if !strings.HasPrefix(name, "holdfast_") { // those of Go and of the process are not ours
			continue
		}
		lines = append(lines, name+" "+strings.ToLower(f.GetType().String()))
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				lines = append(lines, name+" label "+l.GetName())
			}
		}
	}
	return lines
}

var (
	permission = regexp.MustCompile("(?m)^\\| `([^`]+)` \\| ([^|]+) \\|$")
	alert      = regexp.MustCompile(`(?m)^\s*- alert: (\w+)$`)
)

// ofFiles returns what files state that other tests compare with the product: the callers of
// methods and routes, and the names of alerts.
func ofFiles(t *testing.T) baseline {
	t.Helper()
	b := baseline{}
	for _, m := range permission.FindAllStringSubmatch(readFile(t, "../../docs/permissions.md"), -1) {
		if !strings.HasPrefix(m[1], "holdfast.internal.") {
			b["permissions"] = append(b["permissions"], m[1]+": "+m[2])
		}
	}
	for _, m := range alert.FindAllStringSubmatch(readFile(t, "../../deploy/monitoring/alerts.yml"), -1) {
		b["alerts"] = append(b["alerts"], m[1])
	}
	return b
}
