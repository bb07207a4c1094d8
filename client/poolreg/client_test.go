package poolreg

import (
	"context"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/holdfast-metal/holdfast/client/internal/rest"
	"github.com/holdfast-metal/holdfast/client/internal/resttest"
)

func config(network http.RoundTripper) Config {
	return Config{
		Pool: Pool{ID: "pool-1", Endpoint: "http://192.168.1.100:9200", NodeID: "gpu-node-1", Region: "EU",
			Version: "0.1.0"},
		Orchestrator: &Server{URLs: []string{"http://a", "http://b", "http://c"}},
		Transport:    network,
	}
}

func start(t *testing.T, cfg Config, s Source) (c *Client, stop func()) {
	t.Helper()
	c, err := New(cfg, s)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- c.Run(ctx) }()
	stop = func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v, want nil", err)
		}
		done <- nil
	}
	t.Cleanup(stop)
	return c, stop
}

func TestClientFollowsDocument(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := &orchestratord{interval: 10000}
		c, stop := start(t, config(cluster(o)), gpus())
		synctest.Wait()
		if s := c.Orchestrator(); !s.Connected || s.Interval != 10*time.Second {
			t.Errorf("got status %+v", s)
		}
		stop()
		if c.Orchestrator().Connected {
			t.Error("got a connection after the end")
		}
		if diff := cmp.Diff([]map[string]any{decode(`{"pool_id":"pool-1","endpoint":"http://192.168.1.100:9200","node_id":"gpu-node-1",
			"gpus":[{"id":0,"model":"RTX 4090","total_vram_gb":24,"compute_capability":"8.9"}],"region":"EU","version":"0.1.0"}`)}, o.registers); diff != "" {
			t.Errorf("register (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(decode(`{"pool_id":"pool-1","gpus":[{"id":0,"total_vram_gb":24,"available_vram_gb":8,"workers":["worker-abc"],"temperature_celsius":65}],
			"workers_total":1,"workers_ready":1,"workers_busy":0,"uptime_seconds":3600}`), o.lastHeartbeat); diff != "" {
			t.Errorf("heartbeat (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]map[string]any{decode(`{"pool_id":"pool-1","reason":"graceful_shutdown"}`)},
			o.deregisters); diff != "" {
			t.Errorf("deregister (-want +got):\n%s", diff)
		}
		if o.bad != nil {
			t.Errorf("got deviations from the document: %q", o.bad)
		}
	})
}

// Empty lists are sent as lists.
func TestClientWithoutGPUs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := new(orchestratord)
		_, stop := start(t, config(cluster(o)), &source{})
		synctest.Wait()
		stop()
		if _, ok := o.registers[0]["gpus"].([]any); !ok {
			t.Errorf("register: got gpus %v, want a list", o.registers[0]["gpus"])
		}
		if _, ok := o.lastHeartbeat["gpus"].([]any); !ok {
			t.Errorf("heartbeat: got gpus %v, want a list", o.lastHeartbeat["gpus"])
		}
	})
}

func TestClientObeysRequestedInterval(t *testing.T) {
	tests := []struct {
		name  string
		asked int // milliseconds
		own   time.Duration
		want  time.Duration
	}{
		{"normal", 10000, 0, 10 * time.Second},
		{"high load", 5000, 0, 5 * time.Second},
		{"low activity", 30000, 0, 30 * time.Second},
		{"nothing requested", 0, 0, 10 * time.Second},
		{"nothing requested, configured", 0, 20 * time.Second, 20 * time.Second},
		{"requested and configured", 5000, 20 * time.Second, 5 * time.Second},
		{"far too short", 1, 0, minInterval},
		{"far too long", 1 << 40, 0, maxInterval},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := &orchestratord{interval: tt.asked}
				cfg := config(cluster(o))
				cfg.HeartbeatInterval = tt.own
				_, stop := start(t, cfg, gpus())
				sleep(20 * time.Minute)
				stop()
				for i := 1; i < len(o.heartbeats); i++ {
					if d := o.heartbeats[i].Sub(o.heartbeats[i-1]); d > tt.want || d < tt.want*9/10 {
						t.Fatalf("heartbeat %d: got it after %v, want %v or up to a tenth less", i, d, tt.want)
					}
				}
				if len(o.heartbeats) < int(20*time.Minute/tt.want) || len(o.registers) != 1 {
					t.Errorf("got %d heartbeats and %d registrations in 20 minutes", len(o.heartbeats), len(o.registers))
				}
			})
		})
	}
}

// The interval may change with each answer.
func TestClientChangesInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := &orchestratord{interval: 10000}
		_, stop := start(t, config(cluster(o)), gpus())
		for _, asked := range []int{10000, 5000, 30000} {
			o.ask(asked)
			sleep(time.Minute)
			before := o.sent()
			sleep(10 * time.Minute)
			got, want := o.sent()-before, 600000/asked
			if got < want || got > want*10/9+1 {
				t.Errorf("interval %d ms: got %d heartbeats in ten minutes, want %d or up to a tenth more", asked, got, want)
			}
		}
		stop()
	})
}

func TestClientRetriesTheRegistration(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var tries []time.Duration
		began := time.Now()
		n := new(resttest.Network)
		n.Serve("a", func(w http.ResponseWriter, _ *http.Request) {
			tries = append(tries, time.Since(began))
			w.WriteHeader(503)
		})
		cfg := config(n)
		cfg.Orchestrator.URLs = []string{"http://a"}
		reg := prometheus.NewPedanticRegistry()
		cfg.Registerer = reg
		c, stop := start(t, cfg, gpus())
		sleep(10 * time.Minute)
		if s := c.Orchestrator(); s.Connected || s.Failures != len(tries) || s.Err == nil {
			t.Errorf("got status %+v after %d tries", s, len(tries))
		}
		stop()
		for i, ceiling := range []time.Duration{1, 2, 4, 8, 16, 30, 30, 30} {
			if wait := tries[i+1] - tries[i]; wait > ceiling*time.Second || wait < ceiling*time.Second/2 {
				t.Errorf("wait %d: got %v, want half of %d s to all of it", i+1, wait, ceiling)
			}
		}
		if got := scrape(t, reg); !slices.Contains(got, "connection_status 0") {
			t.Errorf("got metrics %q, want not connected", got)
		}
	})
}

func TestClientSurvivesFaults(t *testing.T) {
	tests := []struct {
		name      string
		trouble   http.HandlerFunc // nil: no listener
		hosts     []string
		lasts     time.Duration
		registers int           // in total
		gap       time.Duration // the longest time without a heartbeat, also afterwards
	}{
		{"a short election", resttest.Answer(503, ""), hosts(), 2 * time.Second, 1, 13 * time.Second},
		{"500 for a minute", resttest.Answer(500, "{}"), hosts(), time.Minute, 2, 100 * time.Second},
		{"silence", resttest.Silent, hosts(), 2 * time.Minute, 2, 200 * time.Second},
		{"torn connections", resttest.Torn, hosts(), time.Minute, 2, 100 * time.Second},
		{"no listener", nil, hosts(), 10 * time.Minute, 2, 11 * time.Minute},
		{"401 for a minute", resttest.Answer(401, ""), hosts(), time.Minute, 2, 100 * time.Second},
		{"a 404 of something else", resttest.Answer(404, "<html>"), hosts(), time.Minute, 2, 100 * time.Second},
		{"two of three peers silent for an hour", resttest.Silent, []string{"a", "b"}, time.Hour, 1, 31 * time.Second},
		{"one of three peers down for an hour", nil, []string{"c"}, time.Hour, 1, 10 * time.Second},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := &orchestratord{interval: 10000}
				n := cluster(o)
				c, stop := start(t, config(n), gpus())
				sleep(time.Minute)
				for _, h := range tt.hosts {
					n.Serve(h, tt.trouble)
				}
				sleep(tt.lasts)
				for _, h := range tt.hosts {
					n.Serve(h, o.ServeHTTP)
				}
				sleep(2 * time.Minute)
				if s := c.Orchestrator(); !s.Connected || s.Failures != 0 {
					t.Errorf("got status %+v", s)
				}
				stop()
				if len(o.registers) != tt.registers || len(o.deregisters) != 1 {
					t.Errorf("got %d registrations and %d deregistrations, want %d and 1", len(o.registers), len(o.deregisters),
						tt.registers)
				}
				for i := 1; i < len(o.heartbeats); i++ {
					if d := o.heartbeats[i].Sub(o.heartbeats[i-1]); d > tt.gap {
						t.Errorf("got %v without a heartbeat, want at most %v", d, tt.gap)
					}
				}
			})
		})
	}
}

// A restarted orchestrator gets everything with the next heartbeat.
func TestClientRegistersAgainWhenForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := &orchestratord{interval: 10000}
		s := gpus()
		_, stop := start(t, config(cluster(o)), s)
		sleep(time.Minute)
		s.change(func(s *source) { s.state.GPUs[0].AvailableVRAMGB = new(3) })
		o.forget()
		sleep(10 * time.Second)
		gpu := o.lastHeartbeat["gpus"].([]any)[0].(map[string]any)
		if len(o.registers) != 2 || gpu["available_vram_gb"] != 3.0 {
			t.Errorf("got %d registrations, last heartbeat %v", len(o.registers), gpu)
		}
		stop()
	})
}

func TestClientBacksOffFromForgetfulOrchestrator(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := new(orchestratord)
		n := new(resttest.Network)
		n.Serve("a", func(w http.ResponseWriter, r *http.Request) {
			o.ServeHTTP(w, r)
			o.forget()
		})
		cfg := config(n)
		cfg.Orchestrator.URLs = []string{"http://a"}
		_, stop := start(t, cfg, gpus())
		sleep(5 * time.Minute)
		stop()
		if got := len(o.registers); got < 8 || got > 25 {
			t.Errorf("got %d registrations in five minutes, want 8 to 25", got)
		}
	})
}

func TestClientReportsNewGPUs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := &orchestratord{interval: 10000}
		s := gpus()
		_, stop := start(t, config(cluster(o)), s)
		sleep(time.Minute)
		s.change(func(s *source) { s.state.GPUs = append(s.state.GPUs, GPU{ID: 1, Model: "H100", TotalVRAMGB: new(80)}) })
		sleep(time.Minute)
		stop()
		if len(o.registers) != 2 || len(o.registers[1]["gpus"].([]any)) != 2 {
			t.Errorf("got registrations %v, want a second one with two GPUs", o.registers)
		}
	})
}

// Without a current state there is no heartbeat.
func TestClientWithoutAState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := &orchestratord{interval: 10000}
		s := gpus()
		c, stop := start(t, config(cluster(o)), s)
		sleep(time.Minute)
		s.change(func(s *source) { s.err = errNoGPUs })
		before := o.sent()
		sleep(10 * time.Minute)
		if st := c.Orchestrator(); o.sent() != before || st.Connected {
			t.Errorf("got %d heartbeats without a state, status %+v", o.sent()-before, st)
		}
		s.change(func(s *source) { s.err = nil })
		sleep(time.Minute)
		if o.sent() == before {
			t.Error("got no heartbeat after the state is back")
		}
		stop()
	})
}

func TestClientLeavesInTime(t *testing.T) {
	tests := []struct {
		name    string
		trouble http.HandlerFunc
		hosts   []string
		within  time.Duration
		left    bool
	}{
		{"well", nil, nil, 0, true},
		{"two silent peers", resttest.Silent, []string{"a", "b"}, rest.FarewellTimeout, true},
		{"torn peers", resttest.Torn, []string{"a", "b"}, 0, true},
		{"silence", resttest.Silent, hosts(), rest.FarewellTimeout, false},
		{"no listener", nil, hosts(), rest.FarewellTimeout, false},
		{"forgotten", resttest.Answer(404, `{"error":"pool_not_found"}`), hosts(), 0, false},
		{"refused", resttest.Answer(403, ""), hosts(), 0, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := new(orchestratord)
				n := cluster(o)
				_, stop := start(t, config(n), gpus())
				synctest.Wait()
				for _, h := range tt.hosts {
					n.Serve(h, tt.trouble)
				}
				began := time.Now()
				stop()
				if d := time.Since(began); d > tt.within {
					t.Errorf("got the end after %v, want within %v", d, tt.within)
				}
				if left := len(o.deregisters) == 1; left != tt.left {
					t.Errorf("got %d deregistrations", len(o.deregisters))
				}
			})
		})
	}
}

// A registration in progress at the end may have been applied.
func TestClientDeregistersUnansweredRegistration(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := new(orchestratord)
		n := new(resttest.Network)
		n.Serve("a", func(w http.ResponseWriter, r *http.Request) {
			o.ServeHTTP(w, r)
			if r.URL.Path == "/v2/pools/register" {
				<-r.Context().Done() // applied, but the answer is lost
			}
		})
		cfg := config(n)
		cfg.Orchestrator.URLs = []string{"http://a"}
		_, stop := start(t, cfg, gpus())
		synctest.Wait()
		stop()
		if len(o.deregisters) != 1 || o.known {
			t.Errorf("got %d deregistrations, registered: %v", len(o.deregisters), o.known)
		}
	})
}

func TestUnregisteredClientLeavesAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := new(resttest.Network)
		n.Serve("x", nil)
		_, stop := start(t, config(n), gpus())
		sleep(time.Minute)
		began := time.Now()
		stop()
		if d := time.Since(began); d > 0 {
			t.Errorf("got the end after %v, want at once", d)
		}
	})
}

func TestMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := &orchestratord{interval: 10000}
		n := new(resttest.Network)
		cfg := config(n)
		cfg.Orchestrator.URLs = []string{"http://a"}
		reg := prometheus.NewPedanticRegistry()
		cfg.Registerer = reg
		n.Serve("a", resttest.Answer(503, ""))
		_, stop := start(t, cfg, gpus())
		sleep(400 * time.Millisecond)
		n.Serve("a", o.ServeHTTP)
		sleep(2 * time.Second)
		got := scrape(t, reg)
		for _, want := range []string{
			"connection_status 1", `registration_attempts_total{outcome="failure"} 1`,
			`registration_attempts_total{outcome="success"} 1`,
			`heartbeats_sent_total{outcome="success"} 1`, `heartbeats_sent_total{outcome="failure"} 0`,
			"heartbeat_latency_ms_count 1",
		} {
			if !slices.Contains(got, want) {
				t.Errorf("no %q in %q", want, got)
			}
		}
		n.Serve("a", resttest.Answer(503, ""))
		sleep(11 * time.Second)
		n.Serve("a", o.ServeHTTP)
		sleep(5 * time.Second)
		got = scrape(t, reg)
		for _, want := range []string{"connection_status 1", `heartbeats_sent_total{outcome="success"} 2`,
			"heartbeat_latency_ms_count 2"} {
			if !slices.Contains(got, want) {
				t.Errorf("metrics after a failure: got no %q in %q", want, got)
			}
		}
		if slices.Contains(got, `heartbeats_sent_total{outcome="failure"} 0`) {
			t.Errorf("metrics: got no counted failure in %q", got)
		}
		stop()
		// A second client in the same program continues the counters. Their values depend on the
		// heartbeats due until then.
		const registered = `registration_attempts_total{outcome="success"} `
		before := 0
		for n := 1; n < 4; n++ {
			if slices.Contains(got, registered+strconv.Itoa(n)) {
				before = n
			}
		}
		_, stop = start(t, cfg, gpus())
		synctest.Wait()
		stop()
		got = scrape(t, reg)
		for _, want := range []string{"connection_status 0", registered + strconv.Itoa(before+1)} {
			if !slices.Contains(got, want) {
				t.Errorf("metrics after a second client: got no %q in %q", want, got)
			}
		}
	})
}

// scrape returns the lines of a scrape by Prometheus.
func scrape(t *testing.T, reg *prometheus.Registry) []string {
	t.Helper()
	w := httptest.NewRecorder()
	promhttp.HandlerFor(reg, promhttp.HandlerOpts{}).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	return strings.Split(w.Body.String(), "\n")
}

func TestNewRefuses(t *testing.T) {
	for want, change := range map[string]func(*Config){
		"no orchestrator and no":         func(c *Config) { c.Orchestrator = nil },
		"no pool id":                     func(c *Config) { c.Pool.ID = "" },
		"is negative":                    func(c *Config) { c.HeartbeatInterval = -1 },
		"is not a URL":                   func(c *Config) { c.Pool.Endpoint = "192.168.1.100:9200" },
		"is shorter than the first":      func(c *Config) { c.RetryBackoffMax = time.Millisecond },
		"orchestrator: no address":       func(c *Config) { c.Orchestrator.URLs = nil },
		"orchestrator: use address http": func(c *Config) { c.Orchestrator.Token = "x" },
		"platform: no provider id":       func(c *Config) { c.Platform = &Platform{} },
		"platform: no address":           func(c *Config) { c.Platform = &Platform{ProviderID: "p"} },
		"platform: use address http": func(c *Config) {
			c.Platform = &Platform{ProviderID: "p", AuthToken: "x", Server: Server{URLs: []string{"http://market"}}}
		},
	} {
		cfg := config(nil)
		change(&cfg)
		if _, err := New(cfg, gpus()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("New: got %v, want an error with %q", err, want)
		}
	}
}
