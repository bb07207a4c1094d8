package main

import (
	"context"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-metal/holdfast/agent/facts/smi"
	"github.com/holdfast-metal/holdfast/client/poolreg"
	"github.com/holdfast-metal/holdfast/cluster/freeport"
)

// freeAddr returns an address without a listener.
func freeAddr(t *testing.T) string {
	t.Helper()
	ports, err := freeport.Claim(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ports.Release() })
	return ports.Address("127.0.0.1")
}

// TestPool starts from the configuration file and checks the requests to an orchestrator, up to the
// deregistration.
func TestPool(t *testing.T) {
	p := newPeer(t)
	addr := freeAddr(t)
	config := file(t, "pool.yaml", `
registration:
  orchestrator_url: "`+p.URL+`"
  pool_id: "pool-1"
  heartbeat_interval_ms: 10000
  retry_backoff_base_ms: 1000
  retry_backoff_max_ms: 30000
  region: EU
  token_file: `+file(t, "token", "abc123")+`
metrics_addr: `+addr+`
`)
	var log buffer
	s := made(&log)
	s.smi = func() (smi.Ask, bool) {
		return func(_ context.Context, args ...string) (string, error) {
			if strings.HasPrefix(args[0], "--query-gpu=") {
				return "0, GPU-a, NVIDIA GeForce RTX 4090, 24564, 8200, 65, 8.9\n", nil
			}
			return "GPU-a, 17\nGPU-a, 18\n", nil
		}, true
	}
	end := execute(t, s, "pool", "--config", config)
	eventually(t, "two heartbeats", &log, func() bool { return len(p.got("/v2/pools/pool-1/heartbeat")) >= 2 })
	resp, err := http.Get("http://" + addr + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	metrics, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	http.DefaultClient.CloseIdleConnections()
	for _, want := range []string{`registration_attempts_total{outcome="success"} 1`, "connection_status 1",
		"heartbeat_latency_ms_count"} {
		if err != nil || !strings.Contains(string(metrics), want) {
			t.Errorf("metrics: got no %q: %v\n%s", want, err, metrics)
		}
	}
	if err := end(); err != nil {
		t.Fatalf("%v\n%s", err, &log)
	}
	if diff := cmp.Diff([]map[string]any{{
		"pool_id": "pool-1", "endpoint": "http://192.168.1.100:9200", "node_id": "gpu-worker-1", "region": "EU",
		"version": "1.2.3",
		"gpus": []any{map[string]any{"id": 0.0, "model": "GeForce RTX 4090", "total_vram_gb": 24.0,
			"compute_capability": "8.9"}},
	}}, p.got("/v2/pools/register")); diff != "" {
		t.Errorf("register (-want +got):\n%s", diff)
	}
	heartbeat := p.got("/v2/pools/pool-1/heartbeat")[0]
	delete(heartbeat, "uptime_seconds")
	if diff := cmp.Diff(map[string]any{
		"pool_id": "pool-1", "workers_total": 2.0, "workers_ready": 0.0, "workers_busy": 2.0,
		"gpus": []any{map[string]any{"id": 0.0, "total_vram_gb": 24.0, "available_vram_gb": 8.0,
			"temperature_celsius": 65.0, "workers": []any{"pid-17", "pid-18"}}},
	}, heartbeat); diff != "" {
		t.Errorf("heartbeat (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]map[string]any{{"pool_id": "pool-1", "reason": "graceful_shutdown"}},
		p.got("/v2/pools/pool-1/deregister")); diff != "" {
		t.Errorf("deregister (-want +got):\n%s", diff)
	}
}

func TestPoolWithoutNvidiaSMI(t *testing.T) {
	f, err := parsePoolFile([]byte("registration: {pool_id: p}\ngpus: [{id: 0, model: A, total_vram_gb: 24, " +
		"compute_capability: '8.0'}, {id: 1, model: B, total_vram_gb: 48}, {id: 2, model: C}]\n"))
	if err != nil {
		t.Fatal(err)
	}
	p := &gpuPool{started: time.Now(), fixed: f.GPUs}
	got, err := p.State(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	got.Uptime = 0
	want := poolreg.State{GPUs: []poolreg.GPU{
		{ID: 0, Model: "A", TotalVRAMGB: new(24), AvailableVRAMGB: new(24), ComputeCapability: "8.0"}, {ID: 1, Model: "B",
			TotalVRAMGB: new(48), AvailableVRAMGB: new(48)}, {ID: 2, Model: "C"}, // of unknown size
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("state (-want +got):\n%s", diff)
	}
	// If nvidia-smi does not answer, the file does not replace it.
	p.gpus = smi.NewMonitor(func(context.Context, ...string) (string, error) { return "", os.ErrDeadlineExceeded },
		testLogger())
	if got, err := p.State(t.Context()); err == nil {
		t.Errorf("State: got %+v, want an error", got)
	}
}

// The file in the document is sufficient.
func TestPoolConfigOfDocument(t *testing.T) {
	f, err := parsePoolFile([]byte(`registration:
  orchestrator_url: "http://orchestrator:8080"
  pool_id: "pool-1"
  heartbeat_interval_ms: 10000
  retry_backoff_base_ms: 1000
  retry_backoff_max_ms: 30000
`))
	if err != nil {
		t.Fatal(err)
	}
	got, err := poolConfig(made(nil), f)
	if err != nil {
		t.Fatal(err)
	}
	want := poolreg.Pool{ID: "pool-1", Endpoint: "http://192.168.1.100:9200", NodeID: "gpu-worker-1", Version: "1.2.3"}
	if diff := cmp.Diff(want, got.Pool); diff != "" {
		t.Errorf("pool (-want +got):\n%s", diff)
	}
	if _, err := poolreg.New(got, &gpuPool{}); err != nil {
		t.Error(err)
	}
}

func FuzzParsePoolFile(f *testing.F) {
	f.Add([]byte("registration: {pool_id: p}\ngpus: [{id: 0}]\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		if p, err := parsePoolFile(text); err == nil && p.Registration == nil {
			t.Error("got no registration and no error")
		}
	})
}
