package poolreg

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// The configuration in the document.
const document = `registration:
  orchestrator_url: "http://orchestrator:8080"
  pool_id: "pool-1"
  heartbeat_interval_ms: 10000
  retry_backoff_base_ms: 1000
  retry_backoff_max_ms: 30000
`

func TestSettingsOfTheDocument(t *testing.T) {
	s, err := ParseSettings([]byte(document))
	if err != nil {
		t.Fatal(err)
	}
	got, err := s.Config()
	if err != nil {
		t.Fatal(err)
	}
	want := Config{
		Pool: Pool{ID: "pool-1"}, Orchestrator: &Server{URLs: []string{"http://orchestrator:8080"}},
		HeartbeatInterval: 10 * time.Second, RetryBackoffBase: time.Second, RetryBackoffMax: 30 * time.Second,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("configuration (-want +got):\n%s", diff)
	}
	if _, err := New(got, gpus()); err != nil {
		t.Errorf("New: %v", err)
	}
}

func TestSettingsWithEverything(t *testing.T) {
	token := filepath.Join(t.TempDir(), "auth")
	if err := os.WriteFile(token, []byte("s3cret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := ParseSettings([]byte(document + `
  endpoint: "http://192.168.1.100:9200"
  node_id: gpu-node-1
  region: EU
  version: 0.1.0
  token_file: /etc/pool/token
  allow_plaintext_token: true
  timeout_ms: 3000
  platform:
    url: https://market-1,https://market-2
    token_file: /etc/pool/market-token
    provider_id: prov-1
    endpoint: https://pool.example.com
    auth_token_file: ` + token + `
    refresh_interval_ms: 60000
    pricing: {per_token: 0.00002, per_hour: 1.5, currency: EUR}
    capacity: {total_gpus: 8, total_vram_gb: 640, gpu_models: [H100]}
    sla: {uptime_guarantee: 99.9, max_latency_ms: 250}
    geo: {country: NL, region: EU}
`))
	if err != nil {
		t.Fatal(err)
	}
	got, err := s.Config()
	if err != nil {
		t.Fatal(err)
	}
	want := Config{
		Pool: Pool{ID: "pool-1", Endpoint: "http://192.168.1.100:9200", NodeID: "gpu-node-1", Region: "EU",
			Version: "0.1.0"},
		Orchestrator: &Server{URLs: []string{"http://orchestrator:8080"}, TokenFile: "/etc/pool/token"},
		Platform: &Platform{
			Server:     Server{URLs: []string{"https://market-1", "https://market-2"}, TokenFile: "/etc/pool/market-token"},
			ProviderID: "prov-1", Endpoint: "https://pool.example.com", AuthToken: "s3cret", Refresh: time.Minute,
			Pricing:  Pricing{PerToken: 0.00002, PerHour: 1.5, Currency: "EUR"},
			Capacity: &Capacity{TotalGPUs: 8, TotalVRAMGB: 640, GPUModels: []string{"H100"}},
			SLA:      SLA{UptimeGuarantee: 99.9, MaxLatencyMs: 250}, Geo: Geo{Country: "NL", Region: "EU"},
		},
		HeartbeatInterval: 10 * time.Second, RetryBackoffBase: time.Second, RetryBackoffMax: 30 * time.Second,
		Timeout: 3 * time.Second, AllowPlaintext: true,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("configuration (-want +got):\n%s", diff)
	}
}

func TestSettingsAreStrict(t *testing.T) {
	for text, want := range map[string]string{
		strings.Replace(document, "pool_id", "poolid", 1): `unknown field "poolid"`,
		document + "gpus: []\n":                           `unknown field "gpus"`,
		strings.Replace(document, "10000", "soon", 1):     "heartbeat_interval_ms",
		document + "  pool_id: twice\n":                   "already set",
		"":                                                "no key registration",
		"registration:":                                   "no key registration",
		"registration: [":                                 "read the configuration",
		document + "  platform: {provider_id: x, url: https://m, pricing: {per: 1}}": `unknown field "per"`,
	} {
		if s, err := ParseSettings([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("ParseSettings(%q): got %+v, %v, want an error with %q", text, s, err, want)
		}
	}
	s := Settings{Platform: &PlatformSettings{AuthTokenFile: "/does/not/exist"}}
	if _, err := s.Config(); err == nil {
		t.Error("unreadable token of a provider: got no error")
	}
}

func FuzzParseSettings(f *testing.F) {
	f.Add([]byte(document))
	f.Add([]byte("registration: {platform: {geo: {}}}"))
	f.Fuzz(func(_ *testing.T, text []byte) {
		s, err := ParseSettings(text)
		if err != nil || s.Platform != nil && s.Platform.AuthTokenFile != "" {
			return
		}
		if cfg, err := s.Config(); err == nil {
			_, _ = New(cfg, gpus())
		}
	})
}

func FuzzAskedInterval(f *testing.F) {
	f.Add([]byte(`{"next_heartbeat_ms":10000}`))
	f.Add([]byte(`{"next_heartbeat_ms":"1e9"}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		if d := askedInterval(body, "next_heartbeat_ms"); d != 0 && (d < minInterval || d > maxInterval) {
			t.Errorf("askedInterval(%q): got %v", body, d)
		}
	})
}
