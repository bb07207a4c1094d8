package fake_test

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-metal/holdfast/cluster/freeport"
	"github.com/holdfast-metal/holdfast/providers"
	"github.com/holdfast-metal/holdfast/providers/fake"
)

func TestFactory(t *testing.T) {
	for _, c := range []struct{ name, config, want string }{
		{"nothing", ``, ""},
		{"empty", `{}`, ""},
		{"own fleet", `{"seed": 1, "latency": "20ms", "machines": {"m-1": {"auth": true}}, "settle": "3s"}`, ""},
		{"a fleet elsewhere", `{"endpoint": "http://127.0.0.1:7450", "settle": "3s"}`, ""},
		{"unknown key", `{"latencyy": "20ms"}`, `unknown key "latencyy"`},
		{"endpoint and faults", `{"endpoint": "http://127.0.0.1:7450", "lie": [], "fail": 1}`,
			`key "fail" cannot be combined with an endpoint`},
		{"endpoint is no text", `{"endpoint": 7}`, "endpoint is not a string"},
		{"endpoint is no URL", `{"endpoint": "127.0.0.1:7450"}`, `endpoint "127.0.0.1:7450" is not an address like "http://`},
		{"endpoint with a path", `{"endpoint": "http://h/x"}`, `endpoint "http://h/x"`},
		{"endpoint of another scheme", `{"endpoint": "ftp://h"}`, `endpoint "ftp://h"`},
		{"settle", `{"settle": 3}`, "settle: read duration 3"},
		{"fault", `{"fail": 3}`, "fail is 3"},
		{"no object", `[]`, "read configuration"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, err := fake.Factory("f", json.RawMessage(c.config), slog.New(slog.DiscardHandler))
			switch {
			case c.want == "" && (err != nil || p.Kind() != "fake"):
				t.Fatalf("got %v, want a provider", err)
			case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
				t.Fatalf("got %v, want %q in it", err, c.want)
			}
		})
	}
}

func TestHasEveryCapability(t *testing.T) {
	want := []providers.Capability{providers.CanInspect, providers.CanPower, providers.CanBoot, providers.CanMedia,
		providers.CanImage,
		providers.CanExec, providers.CanJoin, providers.CanNet, providers.CanConsole, providers.CanHealth,
		providers.CanIdentify, providers.CanEvents, providers.CanReset, providers.CanInventory}
	if diff := cmp.Diff(want, providers.Capabilities(fake.New(fake.NewFleet(fake.Config{})))); diff != "" {
		t.Fatal(diff)
	}
}

func TestSettle(t *testing.T) {
	f := fake.NewFleet(fake.Config{
		Faults:   fake.Faults{Latency: fake.Duration(200 * time.Millisecond)},
		Machines: map[string]fake.Faults{"slow": {Latency: fake.Duration(4 * time.Second)}},
	})
	local := fake.New(f)
	s := httptest.NewServer(f.Handler())
	defer s.Close()
	remote, fixed := dial(t, s.URL, 0), dial(t, s.URL, 7*time.Second)
	is := func(what string, p *fake.Provider, id string, want time.Duration) {
		t.Helper()
		if got := p.Settle(machine(id)); got != want {
			t.Errorf("%s: got %v, want %v", what, got, want)
		}
	}
	is("two latencies and a second", local, "m-1", 1400*time.Millisecond)
	is("of that machine", local, "slow", 9*time.Second)
	is("as configured", fixed, "slow", 7*time.Second)
	is("not known yet", remote, "m-1", time.Second)
	if _, err := remote.Inspect(t.Context(), machine("m-1")); err != nil {
		t.Fatal(err)
	}
	is("learned", remote, "m-1", 1400*time.Millisecond)
	is("power takes long", fake.New(fake.NewFleet(fake.Config{PowerTime: fake.Duration(5 * time.Second)})), "m-1",
		10*time.Second)
}

func dial(t *testing.T, url string, settle time.Duration) *fake.Provider {
	t.Helper()
	p, err := fake.NewRemote(url, settle)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestErrorsOfOtherServers checks the classes of errors of other servers.
func TestErrorsOfOtherServers(t *testing.T) {
	ports, err := freeport.Claim(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ports.Release() })
	closed := "http://" + ports.Address("127.0.0.1") // nothing listens on it
	answer := func(status int, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
			_, _ = io.WriteString(w, body)
		}
	}
	for _, c := range []struct {
		name    string
		handler http.HandlerFunc
		want    providers.Class
	}{
		{"no listener, no effect", nil, providers.Transient},
		{"connection cut, unknown outcome", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
			providers.Timeout},
		{"half an answer", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			_, _ = io.WriteString(w, "{")
		}, providers.Timeout},
		{"no fleet", answer(404, "not found"), providers.Unsupported},
		{"proxy", answer(502, "<html>"), providers.Transient},
		{"proxy gave up", answer(504, "{}"), providers.Timeout},
		{"login", answer(403, ""), providers.Auth},
		{"gone", answer(410, ""), providers.Gone},
		{"redirect", answer(307, ""), providers.Unsupported},
		{"no JSON", answer(200, "hello"), providers.Unsupported},
	} {
		t.Run(c.name, func(t *testing.T) {
			url, calls := closed, atomic.Int32{}
			if c.handler != nil {
				s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					calls.Add(1)
					c.handler(w, r)
				}))
				defer s.Close()
				url = s.URL
			}
			p := dial(t, url, 0)
			_, err := p.PowerState(t.Context(), machine("m-1"))
			if err == nil || providers.ClassOf(err) != c.want {
				t.Fatalf("got %v, want one of class %s", err, c.want)
			}
			if c.handler != nil && calls.Load() != 1 {
				t.Fatalf("got %d requests, want 1", calls.Load())
			}
		})
	}
}

// TestPressIsNeverRepeated cuts used connections after each press. The HTTP client must not retry.
func TestPressIsNeverRepeated(t *testing.T) {
	f := fake.NewFleet(fake.Config{})
	var cut atomic.Bool
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.Handler().ServeHTTP(w, r)
		if cut.Load() {
			panic(http.ErrAbortHandler)
		}
	}))
	defer s.Close()
	p := dial(t, s.URL, 0)
	for range 5 {
		cut.Store(false)
		if _, err := p.PowerState(t.Context(), machine("m-1")); err != nil {
			t.Fatal(err)
		}
		cut.Store(true)
		if err := p.SetPower(t.Context(), op("reboot"), machine("m-1"),
			providers.ActionOn); providers.ClassOf(err) != providers.Timeout {
			t.Fatalf("got %v, want an unknown outcome", err)
		}
	}
	if n := len(f.Effects("", "", 0)); n != 5 {
		t.Fatalf("got %d presses, want 5", n)
	}
}

// ending is a context whose deadline is set by the test.
type ending struct {
	context.Context
	over chan struct{}
}

func (e ending) Done() <-chan struct{} { return e.over }

func (e ending) Err() error {
	select {
	case <-e.over:
		return context.DeadlineExceeded
	default:
		return nil
	}
}

// TestEffectOutlivesItsCallerOverHTTP is the same with a closed connection.
func TestEffectOutlivesItsCallerOverHTTP(t *testing.T) {
	f := fake.NewFleet(fake.Config{Faults: fake.Faults{Latency: fake.Duration(2 * time.Second)}})
	ctx := ending{t.Context(), make(chan struct{})}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		close(ctx.over) // the press has arrived: there is one
		f.Handler().ServeHTTP(w, r)
	}))
	defer s.Close()
	err := dial(t, s.URL, 0).SetPower(ctx, op("reboot"), machine("m-1"), providers.ActionHardOff)
	if providers.ClassOf(err) != providers.Timeout {
		t.Fatalf("got %v, want a timeout", err)
	}
	if n := len(f.Effects("", "", 0)); n != 0 {
		t.Fatalf("got %d effects before the end of the latency", n)
	}
	s.Close() // waits for requests in progress
	if n := len(f.Effects("", "", 0)); n != 1 {
		t.Fatalf("got %d effects, want 1", n)
	}
}
