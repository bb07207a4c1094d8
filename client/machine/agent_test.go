package machine

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-metal/holdfast/client/internal/resttest"
)

func config(network http.RoundTripper) Config {
	return Config{
		Servers: []string{"https://a", "https://b", "https://c"}, Token: "abc123", MachineID: "1165a9b6", Pool: "gpu",
		AgentVersion: "0.1.0", Transport: network,
	}
}

// start runs an agent until stop or the end of the test.
func start(t *testing.T, cfg Config, source Source) (a *Agent, stop func()) {
	t.Helper()
	a, err := New(cfg, source)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx) }()
	stop = func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v, want nil", err)
		}
		done <- nil
	}
	t.Cleanup(stop)
	return a, stop
}

// cluster serves one gateway under three addresses.
func cluster(g *gateway) *resttest.Network {
	n := new(resttest.Network)
	for _, host := range []string{"a", "b", "c"} {
		n.Serve(host, g.ServeHTTP)
	}
	return n
}

func TestAgentFollowsDocument(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &gateway{token: "abc123", pool: "gpu"}
		source := worker()
		source.specs.Hardware = Hardware{SerialNumber: "S1"}
		a, stop := start(t, config(cluster(g)), source)
		synctest.Wait()
		if s := a.Status(); !s.Ready || s.Failures != 0 || s.Interval != time.Minute {
			t.Errorf("got status %+v, want ready, a minute", s)
		}
		source.change(func(b *box) { b.metrics = nil })
		sleep(a.Status().Interval)
		stop()
		if diff := cmp.Diff(map[string]any{
			"token": "abc123", "machine_id": "1165a9b6", "hostname": "gpu-worker-1", "provider_name": "generic",
			"pool_name": "gpu",
			"cpu":       "8000m", "memory": "16Gi", "gpu_count": "1", "private_ip": "192.168.1.100", "serial_number": "S1",
		}, g.lastReg); diff != "" {
			t.Errorf("register (-want +got):\n%s", diff)
		}
		// The second keepalive had no metrics.
		if diff := cmp.Diff(map[string]any{
			"machine_id": "1165a9b6", "provider_name": "generic", "pool_name": "gpu", "agent_version": "0.1.0",
		}, g.lastKeep); diff != "" {
			t.Errorf("keepalive (-want +got):\n%s", diff)
		}
		if r, k := g.counts(); r != 1 || k != 2 || g.bad != nil {
			t.Errorf("got %d registrations, %d keepalives, deviations %q", r, k, g.bad)
		}
	})
}

// An insecure cluster needs no token.
func TestAgentWithoutAToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &gateway{pool: "gpu"}
		n := new(resttest.Network)
		n.Serve("peer", func(w http.ResponseWriter, r *http.Request) {
			if got, ok := r.Header["Authorization"]; ok {
				t.Errorf("got Authorization %q, want none", got)
			}
			r.Header.Set("Authorization", "Bearer ")
			g.ServeHTTP(w, r)
		})
		cfg := config(n)
		cfg.Servers, cfg.Token = []string{"http://peer"}, ""
		a, stop := start(t, cfg, worker())
		sleep(time.Second)
		stop()
		if r, k := g.counts(); r != 1 || k != 1 || g.lastReg["token"] != "" {
			t.Errorf("got %d registrations, %d keepalives, status %+v", r, k, a.Status())
		}
	})
}

func TestKeepaliveBody(t *testing.T) {
	m := Metrics{CPUUtilizationPct: 15.5, MemoryUtilizationPct: 42.3, TotalCPUAvailable: 8000,
		TotalMemoryAvailable: 16384, FreeGPUCount: new(1)}
	got, err := json.Marshal(keepaliveRequest{MachineID: "1165a9b6", ProviderName: "generic", PoolName: "gpu",
		AgentVersion: "0.1.0-python", Metrics: &m})
	if err != nil {
		t.Fatal(err)
	}
	want := `{"machine_id":"1165a9b6","provider_name":"generic","pool_name":"gpu","agent_version":"0.1.0-python","metrics":` +
		`{"cpu_utilization_pct":15.5,"memory_utilization_pct":42.3,"total_cpu_available":8000,"total_memory_available":16384,"free_gpu_count":1}}`
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("body (-want +got):\n%s", diff)
	}
}

func TestFormatMemory(t *testing.T) {
	for mib, want := range map[int64]string{16384: "16Gi", 15876: "15876Mi", 0: "0Mi", 512: "512Mi", 1024: "1Gi"} {
		if got := formatMemory(mib); got != want {
			t.Errorf("formatMemory(%d): got %q, want %q", mib, got, want)
		}
	}
}

// An agent survives all faults of a cluster, and its machine never expires.
func TestAgentSurvivesFaults(t *testing.T) {
	tests := []struct {
		name    string
		trouble http.HandlerFunc // nil: no listener
		hosts   []string
		lasts   time.Duration
	}{
		{"an election: 500", resttest.Answer(500, `{"message":"Failed to register machine"}`), []string{"a", "b", "c"},
			20 * time.Second},
		{"an election: 503", resttest.Answer(503, `{"message":"no leader"}`), []string{"a", "b", "c"}, 20 * time.Second},
		{"a silent cluster", resttest.Silent, []string{"a", "b", "c"}, 2 * time.Minute},
		{"torn connections", resttest.Torn, []string{"a", "b", "c"}, 2 * time.Minute},
		{"no listener", nil, []string{"a", "b", "c"}, 2 * time.Minute},
		{"a page of a proxy", resttest.Answer(502, "<html>Bad Gateway</html>"), []string{"a", "b", "c"}, time.Minute},
		{"two of three peers silent for an hour", resttest.Silent, []string{"a", "b"}, time.Hour},
		{"one peer down for an hour", nil, []string{"c"}, time.Hour},
		{"refused for a while", resttest.Answer(403, `{"message":"Invalid token", "error_code":"invalid_token"}`),
			[]string{"a", "b", "c"}, time.Minute},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := &gateway{token: "abc123", pool: "gpu"}
				n := cluster(g)
				a, stop := start(t, config(n), worker())
				sleep(10 * time.Minute)
				for _, host := range tt.hosts {
					n.Serve(host, tt.trouble)
				}
				sleep(tt.lasts)
				for _, host := range tt.hosts {
					n.Serve(host, g.ServeHTTP)
				}
				sleep(5 * time.Minute)
				if s := a.Status(); !s.Ready || s.Failures != 0 || s.Err != nil {
					t.Errorf("got status %+v afterwards", s)
				}
				stop()
				if r, _ := g.counts(); r != 1 || g.expired != 0 {
					t.Errorf("got %d registrations and %d expiries, want 1 and 0", r, g.expired)
				}
			})
		})
	}
}

func TestAgentRegistersAgainWhenForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &gateway{token: "abc123", pool: "gpu"}
		a, stop := start(t, config(cluster(g)), worker())
		sleep(90 * time.Second)
		g.forget()
		forgotten := time.Now()
		sleep(61 * time.Second)
		if s := a.Status(); !s.Ready {
			t.Errorf("got status %+v, want ready again", s)
		}
		stop()
		if r, _ := g.counts(); r != 2 {
			t.Fatalf("got %d registrations, want 2", r)
		}
		if late := g.registers[1].Sub(forgotten); late > time.Minute {
			t.Errorf("got a registration after %v, want it with the next keepalive", late)
		}
	})
}

// A server that forgets machines at once does not cause a tight loop.
func TestAgentBacksOffFromForgetfulServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &gateway{token: "abc123", pool: "gpu"}
		n := new(resttest.Network)
		n.Serve("a", func(w http.ResponseWriter, r *http.Request) {
			g.ServeHTTP(w, r)
			g.forget()
		})
		cfg := config(n)
		cfg.Servers = []string{"https://a"}
		_, stop := start(t, cfg, worker())
		sleep(5 * time.Minute)
		stop()
		if r, k := g.counts(); r < 10 || r > 25 || k != 0 {
			t.Errorf("got %d registrations and %d keepalives in five minutes, want 10 to 25 and 0", r, k)
		}
	})
}

func TestAgentWaitsForServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := new(resttest.Network)
		n.Serve("x", nil)
		a, stop := start(t, config(n), worker())
		sleep(time.Hour)
		// 1+2+4+8+16+30+30+… seconds, with three addresses each, and between half of that and all
		// of it.
		if calls := n.Calls("a") + n.Calls("b") + n.Calls("c"); calls < 3*120 || calls > 3*245 {
			t.Errorf("got %d requests in an hour, want about 3 per 15 to 30 s", calls)
		}
		s := a.Status()
		if s.Ready || s.Failures < 100 || s.Err == nil || time.Since(s.Progress) > time.Minute {
			t.Errorf("got status %+v", s)
		}
		g := &gateway{token: "abc123", pool: "gpu"}
		n.Serve("b", g.ServeHTTP)
		sleep(31 * time.Second)
		if !a.Status().Ready {
			t.Errorf("got status %+v, want ready 30 s after the server started", a.Status())
		}
		stop()
	})
}

func TestAgentObeysRequestedInterval(t *testing.T) {
	tests := []struct {
		name       string
		configured time.Duration
		ttl        time.Duration
		extra      string
		want       time.Duration
	}{
		{"a fifth of the TTL", 0, 0, "", time.Minute},
		{"a shorter TTL", 0, 50 * time.Second, "", 10 * time.Second},
		{"a very short TTL", 0, 2 * time.Second, "", time.Second},
		{"requested", 0, 0, `,"next_keepalive_ms":20000`, 20 * time.Second},
		{"requested as a string", 0, 0, `,"next_keepalive_ms":"20000"`, 20 * time.Second},
		{"requested too long", 0, 0, `,"next_keepalive_ms":200000`, 100 * time.Second},
		{"requested too short", 0, 0, `,"next_keepalive_ms":1`, time.Second},
		{"nonsense", 0, 0, `,"next_keepalive_ms":{"x":-1}`, time.Minute},
		{"configured", 30 * time.Second, 0, `,"next_keepalive_ms":20000`, 30 * time.Second},
		{"configured too long", time.Hour, 0, "", 100 * time.Second},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := &gateway{token: "abc123", pool: "gpu", ttl: tt.ttl, extra: tt.extra}
				cfg := config(cluster(g))
				cfg.Interval = tt.configured
				_, stop := start(t, cfg, worker())
				sleep(time.Hour)
				stop()
				for i := 1; i < len(g.keeps); i++ {
					if d := g.keeps[i].Sub(g.keeps[i-1]); d > tt.want || d < tt.want*9/10 {
						t.Fatalf("keepalive %d: got it after %v, want %v or up to a tenth less", i, d, tt.want)
					}
				}
				if len(g.keeps) < int(time.Hour/tt.want) || g.expired != 0 {
					t.Errorf("got %d keepalives in an hour and %d expiries", len(g.keeps), g.expired)
				}
			})
		})
	}
}

func TestAgentReportsChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &gateway{token: "abc123", pool: "gpu"}
		source := worker()
		a, stop := start(t, config(cluster(g)), source)
		sleep(time.Minute)
		source.change(func(b *box) { b.specs.PrivateIP = "192.168.1.101" })
		sleep(specsEvery + time.Minute)
		if !a.Status().Ready {
			t.Errorf("got status %+v, want ready", a.Status())
		}
		// Unreadable facts are no change.
		source.change(func(b *box) { b.specs, b.err = Specs{}, errors.New("no /proc today") })
		sleep(specsEvery + time.Minute)
		stop()
		if r, _ := g.counts(); r != 2 || g.lastReg["private_ip"] != "192.168.1.101" {
			t.Errorf("got %d registrations, the last with %v, want 2, the last with the new address", r, g.lastReg["private_ip"])
		}
	})
}

func TestAgentUsesNewToken(t *testing.T) {
	path := filepath.Join(t.TempDir(), "token")
	synctest.Test(t, func(t *testing.T) {
		g := &gateway{token: "abc123", pool: "gpu"}
		if err := os.WriteFile(path, []byte("yesterday's\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		cfg := config(cluster(g))
		cfg.Token, cfg.TokenFile = "", path
		a, stop := start(t, cfg, worker())
		sleep(time.Minute)
		if s := a.Status(); s.Ready || s.Err == nil || strings.Contains(s.Err.Error(), "yesterday") {
			t.Errorf("got status %+v, want refused", s)
		}
		if err := os.WriteFile(path, []byte("abc123\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		sleep(time.Minute)
		if s := a.Status(); !s.Ready {
			t.Errorf("got status %+v, want ready with the new token", s)
		}
		stop()
	})
}

func TestAgentHonoursRetryAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := new(resttest.Network)
		n.Serve("a", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "50")
			answer(w, 503, `{"message":"draining"}`)
		})
		cfg := config(n)
		cfg.Servers = []string{"https://a"}
		_, stop := start(t, cfg, worker())
		sleep(499 * time.Second)
		stop()
		if got := n.Calls("a"); got != 10 {
			t.Errorf("got %d requests in 499 s, want one per 50 s", got)
		}
	})
}

func TestNewRefuses(t *testing.T) {
	for want, change := range map[string]func(*Config){
		"no machine id":               func(c *Config) { c.MachineID = "" },
		`machine id "a/b"`:            func(c *Config) { c.MachineID = "a/b" },
		"no pool":                     func(c *Config) { c.Pool = "" },
		"token file, not both":        func(c *Config) { c.TokenFile = "/x" },
		"no address":                  func(c *Config) { c.Servers = nil },
		"refusing to send a token ov": func(c *Config) { c.Servers = []string{"http://10.0.0.1:7401"} },
	} {
		cfg := config(nil)
		change(&cfg)
		if _, err := New(cfg, worker()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("New: got %v, want an error with %q", err, want)
		}
	}
}
