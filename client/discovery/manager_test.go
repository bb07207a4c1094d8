package discovery

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-metal/holdfast/client/internal/rest"
	"github.com/holdfast-metal/holdfast/client/internal/resttest"
)

func config(network http.RoundTripper) Config {
	return Config{BaseURLs: []string{"https://a", "https://b", "https://c"}, Transport: network}
}

func tool() Target {
	return Target{ServiceName: "my-tool", Host: "192.168.1.100", Port: 9090, ServiceType: ToolInvoker}
}

func start(t *testing.T, cfg Config) (m *Manager, stop func()) {
	t.Helper()
	m, err := New(cfg, tool())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- m.Run(ctx) }()
	stop = func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v, want nil", err)
		}
		done <- nil
	}
	t.Cleanup(stop)
	return m, stop
}

// events records the callbacks.
type events struct{ seen []string }

func (e *events) OnRegistration(_ *Manager, t Target) {
	e.seen = append(e.seen, "registered "+t.ServiceName)
}
func (e *events) OnPing(_ *Manager, _ Target, status int) {
	e.seen = append(e.seen, fmt.Sprint("ping ", status))
}
func (e *events) OnDeregistration(_ *Manager, _ Target, status int) {
	e.seen = append(e.seen, fmt.Sprint("deregistered ", status))
}

func TestManagerFromStartToEnd(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	synctest.Test(t, func(t *testing.T) {
		s := new(router)
		var e events
		cfg := config(cluster(s))
		cfg.DataDir, cfg.Callbacks, cfg.InitialDelay = dir, []Callback{&e}, time.Second
		m, stop := start(t, cfg)
		synctest.Wait()
		if m.Phase() != Initial || m.Target().ID != "" {
			t.Errorf("before the start: got phase %s, id %q", m.Phase(), m.Target().ID)
		}
		sleep(time.Second)
		synctest.Wait()
		first := m.Target().ID
		if m.Phase() != Registered || len(first) != 36 {
			t.Errorf("got phase %s, id %q, want REGISTERED and a UUID", m.Phase(), first)
		}
		sleep(DefaultPeriod)
		if m.Phase() != Active {
			t.Errorf("got phase %s, want ACTIVE", m.Phase())
		}
		stop()
		if m.Phase() != Deregistered || len(s.services) != 0 || !slices.Equal(s.deregistered, []string{first}) {
			t.Errorf("got phase %s, services %v, deregistered %v", m.Phase(), s.services, s.deregistered)
		}
		if diff := cmp.Diff([]string{"registered my-tool", "ping 200", "deregistered 200"}, e.seen); diff != "" {
			t.Errorf("callbacks (-want +got):\n%s", diff)
		}
		// It registers again with the same id.
		m, stop = start(t, cfg)
		sleep(time.Second)
		synctest.Wait()
		stop()
		if m.Target().ID != first || s.bad != nil {
			t.Errorf("second registration: got id %s, want %s; errors %q", m.Target().ID, first, s.bad)
		}
	})
}

func TestRegisterBody(t *testing.T) {
	target := tool()
	for want, target := range map[string]Target{
		`{"serviceName":"my-tool","host":"192.168.1.100","port":9090,"serviceType":"tool-invoker"}`: target,
		`{"id":"550e8400-e29b-41d4-a716-446655440000","serviceName":"my-tool","host":"192.168.1.100","port":9090,"serviceType":"tool-invoker","serviceSubType":"jvm","languageName":"Java","languageType":"compiled","languageSubType":"jvm"}`: {
			ID: "550e8400-e29b-41d4-a716-446655440000", ServiceName: "my-tool", Host: "192.168.1.100", Port: 9090,
			ServiceType:    ToolInvoker,
			ServiceSubType: "jvm", LanguageName: "Java", LanguageType: "compiled", LanguageSubType: "jvm",
		},
	} {
		got, err := json.Marshal(target)
		if err != nil || string(got) != want {
			t.Errorf("got %s, %v, want %s", got, err, want)
		}
	}
	got, err := json.Marshal(State{Timestamp: time.Date(2025, 1, 15, 10, 30, 0, 0, time.UTC), Healthy: true,
		Reason: ReasonHealthy})
	if want := `{"timestamp":"2025-01-15T10:30:00Z","healthy":true,"reason":"healthy"}`; err != nil ||
		string(got) != want {
		t.Errorf("got %s, %v, want %s", got, err, want)
	}
}

func TestManagerPingsOnSchedule(t *testing.T) {
	for _, period := range []time.Duration{0, 30 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			s := new(router)
			cfg := config(cluster(s))
			cfg.Period, cfg.InitialDelay = period, 7*time.Second
			began := time.Now()
			_, stop := start(t, cfg)
			sleep(10 * time.Minute)
			stop()
			if period == 0 {
				period = 5 * time.Second // as in the document's table
			}
			if d := s.registers[0].Sub(began); d != 7*time.Second || len(s.registers) != 1 {
				t.Errorf("got %d registrations, the first after %v, want one after 7 s", len(s.registers), d)
			}
			for i := 1; i < len(s.pings); i++ {
				if d := s.pings[i].Sub(s.pings[i-1]); d > period || d < period*9/10 {
					t.Fatalf("ping %d: got it after %v, want %v or up to a tenth less", i, d, period)
				}
			}
			if len(s.pings) < int(10*time.Minute/period)-1 {
				t.Errorf("got %d pings in ten minutes", len(s.pings))
			}
		})
	}
}

func TestManagerSurvivesFaults(t *testing.T) {
	tests := []struct {
		name    string
		trouble http.HandlerFunc // nil: no listener
		hosts   []string
	}{
		{"500 everywhere", resttest.Answer(500, `{"error":{"message":"boom"}}`), hosts()},
		{"503 everywhere", resttest.Answer(503, ""), hosts()},
		{"silence", resttest.Silent, hosts()},
		{"torn connections", resttest.Torn, hosts()},
		{"no listener", nil, hosts()},
		{"two silent peers", resttest.Silent, []string{"a", "c"}},
		{"403 everywhere", resttest.Answer(403, ""), hosts()},
		{"429 everywhere", resttest.Answer(429, ""), hosts()},
		{"401 everywhere", resttest.Answer(401, ""), hosts()},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := new(router)
				n := cluster(s)
				m, stop := start(t, config(n))
				sleep(time.Minute)
				id := m.Target().ID
				for _, h := range tt.hosts {
					n.Serve(h, tt.trouble)
				}
				m.Unhealthy("first")
				m.Unhealthy("second")
				sleep(5 * time.Minute)
				for _, h := range tt.hosts {
					n.Serve(h, s.ServeHTTP)
				}
				sleep(maxWait + 31*time.Second)
				stop()
				if len(s.registers) != 1 || m.Target().ID != id {
					t.Errorf("got %d registrations, id %s, want one, %s", len(s.registers), m.Target().ID, id)
				}
				if last := s.pings[len(s.pings)-1]; time.Since(last) > DefaultPeriod {
					t.Errorf("got no ping for %v", time.Since(last))
				}
				// No report is lost.
				var reasons []string
				for _, u := range s.updates {
					reasons = append(reasons, u.Reason)
				}
				if diff := cmp.Diff([]string{"first", "second"}, reasons); diff != "" {
					t.Errorf("reports (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// It makes three retries at intervals of a second, and then one per period.
func TestManagerRetriesTheRegistration(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var tries []time.Duration
		began := time.Now()
		n := new(resttest.Network)
		n.Serve("a", func(w http.ResponseWriter, _ *http.Request) {
			tries = append(tries, time.Since(began))
			w.WriteHeader(500)
		})
		cfg := config(n)
		cfg.BaseURLs = []string{"https://a"}
		m, stop := start(t, cfg)
		sleep(10 * time.Minute)
		if m.Phase() != Initial {
			t.Errorf("got phase %s, want INITIAL", m.Phase())
		}
		stop()
		for i := 1; i < len(tries); i++ {
			wait, lo, hi := tries[i]-tries[i-1], maxWait/2, maxWait
			switch {
			case i <= DefaultMaxRetries:
				lo, hi = DefaultRetryWait, DefaultRetryWait*6/5
			case i <= DefaultMaxRetries+3:
				lo, hi = DefaultPeriod/2, 4*DefaultPeriod
			}
			if wait < lo || wait > hi {
				t.Errorf("try %d: got it after %v, want %v to %v", i+1, wait, lo, hi)
			}
		}
		if len(tries) < 20 || len(tries) > 50 || n.Calls("a") != len(tries) {
			t.Errorf("got %d tries in ten minutes", len(tries))
		}
	})
}

func TestManagerHonoursRetryAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := new(router)
		n := cluster(s)
		busy := func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "50")
			w.WriteHeader(503)
		}
		n.Serve("a", busy)
		cfg := config(n)
		cfg.BaseURLs = []string{"https://a"}
		_, stop := start(t, cfg)
		sleep(449 * time.Second) // registrations after 0, 50 … 400 s
		n.Serve("a", s.ServeHTTP)
		sleep(2 * time.Second)
		if got := n.Calls("a"); got != 10 || len(s.ids()) != 1 {
			t.Errorf("got %d registrations in 450 s, want one per 50 s", got)
		}
		n.Serve("a", busy)
		sleep(104 * time.Second) // pings after about 5, 55 and 105 s
		if got := n.Calls("a"); got < 12 || got > 13 {
			t.Errorf("got %d requests, want two or three pings", got)
		}
		stop()
	})
}

func TestManagerRegistersAgainWhenForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := new(router)
		m, stop := start(t, config(cluster(s)))
		sleep(time.Minute)
		id := m.Target().ID
		s.forget()
		sleep(DefaultPeriod)
		if got := s.ids(); !slices.Equal(got, []string{id}) {
			t.Errorf("got id %v, want %s again", got, id)
		}
		// A report detects it too, and is not lost.
		s.forget()
		m.Unhealthy("Database connection lost")
		sleep(time.Second) // the service was forgotten twice
		if got := s.ids(); !slices.Equal(got, []string{id}) || len(s.updates) != 1 {
			t.Errorf("got id %v and %d reports, want %s again and one", got, len(s.updates), id)
		}
		stop()
		if len(s.registers) != 3 {
			t.Errorf("got %d registrations, want 3", len(s.registers))
		}
	})
}

// A router that forgets services at once does not cause a tight loop.
func TestManagerBacksOffFromForgetfulRouter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := new(router)
		n := new(resttest.Network)
		n.Serve("a", func(w http.ResponseWriter, r *http.Request) {
			s.ServeHTTP(w, r)
			s.forget()
		})
		cfg := config(n)
		cfg.BaseURLs = []string{"https://a"}
		m, stop := start(t, cfg)
		for range 300 {
			m.Healthy()
			sleep(time.Second)
		}
		stop()
		if got := len(s.registers); got < 8 || got > 25 {
			t.Errorf("got %d registrations in five minutes, want 8 to 25", got)
		}
	})
}

// A router that refuses the old id may assign a new one.
func TestManagerDropsRefusedID(t *testing.T) {
	dir := t.TempDir()
	old := "550e8400-e29b-41d4-a716-446655440000"
	if err := os.WriteFile(filepath.Join(dir, "my-tool.wanaku.dat"), encodeID(2, old), 0o600); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		s := new(router)
		n := new(resttest.Network)
		refused := 0
		n.Serve("a", func(w http.ResponseWriter, r *http.Request) {
			r2 := readBody(r)
			if strings.Contains(r2, old) {
				refused++
				w.WriteHeader(http.StatusConflict)
				return
			}
			s.ServeHTTP(w, r)
		})
		cfg := config(n)
		cfg.BaseURLs, cfg.DataDir = []string{"https://a"}, dir
		m, stop := start(t, cfg)
		sleep(2 * time.Second)
		id := m.Target().ID
		stop()
		if refused != 1 || id == old || len(id) != 36 {
			t.Errorf("got %d refusals, id %q", refused, id)
		}
		if kept, err := m.file.read(); kept != id || err != nil {
			t.Errorf("file: got %q, %v, want %q", kept, err, id)
		}
	})
}

// Answers of routers may deviate from the document.
func TestManagerReadsAnswersLeniently(t *testing.T) {
	const id = "550e8400-e29b-41d4-a716-446655440000"
	tests := []struct {
		name, body string
		sent       string
		want       string // empty: an error
	}{
		{"the document's", `{"error":null,"data":{"id":"` + id + `","serviceName":"x"}}`, "", id},
		{"members unknown, of wrong types", `{"extra":1,"data":{"id":"` + id + `","port":"9090","new":[{}]}}`, "", id},
		{"different id", `{"data":{"id":"` + id + `"}}`, "b", id},
		{"no data, known id", `{"error":null,"data":null}`, id, id},
		{"an empty object", `{}`, id, id},
		{"no id", `{"error":null,"data":{"serviceName":"x"}}`, "", ""},
		{"an error", `{"error":{"message":"full"},"data":null}`, id, ""},
		{"an error as text", `{"error":"full"}`, "", ""},
		{"no JSON", `<html>`, id, ""},
		{"nothing", ``, id, ""},
		{"id as a number", `{"data":{"id":7}}`, "", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := assignedID([]byte(tt.body), tt.sent)
			if got != tt.want || (err != nil) != (tt.want == "") {
				t.Errorf("assignedID: got %q, %v, want %q", got, err, tt.want)
			}
		})
	}
}

func TestManagerLeavesInTime(t *testing.T) {
	tests := []struct {
		name    string
		trouble http.HandlerFunc
		hosts   []string
		within  time.Duration
		gone    bool
	}{
		{"well", nil, nil, 0, true},
		{"one silent peer", resttest.Silent, []string{"a"}, 4 * time.Second, true},
		{"two torn peers", resttest.Torn, []string{"a", "b"}, 0, true},
		{"silence", resttest.Silent, hosts(), rest.FarewellTimeout, false},
		{"no listener", nil, hosts(), rest.FarewellTimeout, false},
		{"503", resttest.Answer(503, ""), hosts(), rest.FarewellTimeout, false},
		{"forgotten", resttest.Answer(404, ""), hosts(), 0, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := new(router)
				n := cluster(s)
				_, stop := start(t, config(n))
				synctest.Wait()
				for _, h := range tt.hosts {
					n.Serve(h, tt.trouble)
				}
				began := time.Now()
				stop()
				if d := time.Since(began); d > tt.within {
					t.Errorf("got the end after %v, want within %v", d, tt.within)
				}
				if gone := len(s.services) == 0; gone != tt.gone {
					t.Errorf("got deregistered: %v, want %v", gone, tt.gone)
				}
			})
		})
	}
}

// An election that ends within five seconds does not prevent a deregistration.
func TestManagerLeavesDuringElection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := new(router)
		n := cluster(s)
		_, stop := start(t, config(n))
		synctest.Wait()
		for _, h := range hosts() {
			n.Serve(h, resttest.Answer(503, ""))
		}
		time.AfterFunc(3*time.Second, func() {
			for _, h := range hosts() {
				n.Serve(h, s.ServeHTTP)
			}
		})
		stop()
		if len(s.services) != 0 {
			t.Error("got a registered service, want it deregistered")
		}
	})
}

// A service that stops before its registration is answered may be registered nevertheless.
func TestManagerLeavesAfterUnansweredRegistration(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		const id = "550e8400-e29b-41d4-a716-446655440000"
		file, err := newIDFile(dir, tool())
		if err == nil {
			err = file.write(id)
		}
		if err != nil {
			t.Fatal(err)
		}
		s, n := new(router), new(resttest.Network)
		n.Serve("a", func(w http.ResponseWriter, r *http.Request) {
			if !strings.HasSuffix(r.URL.Path, "/register") {
				s.ServeHTTP(w, r)
				return
			}
			s.ServeHTTP(httptest.NewRecorder(), r)
			resttest.Silent(w, r)
		})
		cfg := config(n)
		cfg.DataDir = dir
		_, stop := start(t, cfg)
		sleep(time.Second)
		if !slices.Equal(s.ids(), []string{id}) {
			t.Fatalf("got services %v, want %s", s.ids(), id)
		}
		stop()
		if !slices.Equal(s.deregistered, []string{id}) {
			t.Errorf("got deregistered %v, want %s", s.deregistered, id)
		}
	})
}

func TestUnregisteredManagerLeavesAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := new(resttest.Network)
		n.Serve("a", resttest.Answer(500, ""))
		for _, delay := range []time.Duration{0, time.Hour} {
			cfg := config(n)
			cfg.InitialDelay = delay
			_, stop := start(t, cfg)
			sleep(time.Minute)
			began := time.Now()
			stop()
			if d := time.Since(began); d > 0 {
				t.Errorf("got the end after %v, want at once", d)
			}
		}
	})
}

func TestReports(t *testing.T) {
	r := newReports()
	for i := range 30 {
		r.add(State{Healthy: true, Reason: ReasonHealthy, Timestamp: time.Unix(int64(i), 0)})
	}
	for i := range 12 {
		r.add(State{Reason: fmt.Sprint(i)})
	}
	first, _ := r.take()
	r.putBack(first)
	r.add(State{Reason: "12"})
	var got []string
	for {
		s, ok := r.take()
		if !ok {
			break
		}
		got = append(got, s.Reason)
	}
	if diff := cmp.Diff([]string{"3", "4", "5", "6", "7", "8", "9", "10", "11", "12"}, got); diff != "" {
		t.Errorf("kept (-want +got):\n%s", diff)
	}
}

func TestNewRefuses(t *testing.T) {
	for want, change := range map[string]func(*Config, *Target){
		"no service name":      func(_ *Config, t *Target) { t.ServiceName = "" },
		"no host":              func(_ *Config, t *Target) { t.Host = "" },
		"port 0":               func(_ *Config, t *Target) { t.Port = 0 },
		"port 65536":           func(_ *Config, t *Target) { t.Port = 65536 },
		`service type "tool"`:  func(_ *Config, t *Target) { t.ServiceType = "tool" },
		"as a file name":       func(c *Config, t *Target) { c.DataDir, t.ServiceName = "/tmp", "../x" },
		"no address":           func(c *Config, _ *Target) { c.BaseURLs = nil },
		"without a token":      func(c *Config, _ *Target) { c.ClientID = "x" },
		"without a client id":  func(c *Config, _ *Target) { c.TokenEndpoints = []string{"https://i"} },
		"not a URL":            func(c *Config, _ *Target) { c.ClientID, c.TokenEndpoints = "x", []string{"i/token"} },
		"refusing to send the": func(c *Config, _ *Target) { c.ClientID, c.TokenEndpoints = "x", []string{"http://i/token"} },
		"time is negative":     func(c *Config, _ *Target) { c.Period = -1 },
		"refusing to send a to": func(c *Config, _ *Target) {
			c.ClientID, c.TokenEndpoints, c.BaseURLs = "x", []string{"https://i"}, []string{"http://r"}
		},
	} {
		cfg, target := config(nil), tool()
		change(&cfg, &target)
		if _, err := New(cfg, target); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("New: got %v, want an error with %q", err, want)
		}
	}
}
