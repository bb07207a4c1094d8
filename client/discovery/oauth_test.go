package discovery

import (
	"bytes"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-metal/holdfast/client/internal/hedge"
	"github.com/holdfast-metal/holdfast/client/internal/resttest"
)

// readBody returns a request's body, which can be read again.
func readBody(r *http.Request) string {
	b, _ := io.ReadAll(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(b))
	return string(b)
}

// guarded returns a router, the network with its issuer at host "issuer", and a configuration for
// them.
func guarded(i *issuer, endpoint string) (*router, *resttest.Network, Config) {
	s := &router{issuer: i}
	n := cluster(s)
	n.Serve("issuer", i.ServeHTTP)
	cfg := config(n)
	cfg.ClientID, cfg.Secret, cfg.TokenEndpoints = "my-client", "s3cret", []string{endpoint}
	return s, n, cfg
}

func TestTokensAreFetchedAndRenewed(t *testing.T) {
	tests := []struct {
		name     string
		issuer   *issuer
		endpoint string
		fetched  int // tokens in ten minutes
		grants   []string
	}{
		{"an issuer", &issuer{discovery: true}, "https://issuer/realm", 1, []string{"client_credentials"}},
		{"an issuer with a slash", &issuer{discovery: true}, "https://issuer/realm/", 1, []string{"client_credentials"}},
		{"a token endpoint", &issuer{}, "https://issuer/token", 1, []string{"client_credentials"}},
		{"form fields only", &issuer{formOnly: true}, "https://issuer/token", 1, []string{"client_credentials"}},
		{"tokens of 90 s", &issuer{lives: 90 * time.Second}, "https://issuer/token", 11, []string{"client_credentials"}},
		{"tokens of 20 s", &issuer{lives: 20 * time.Second}, "https://issuer/token", 43, []string{"client_credentials"}},
		{"refresh tokens", &issuer{lives: 90 * time.Second, refresh: true}, "https://issuer/token", 11,
			[]string{"client_credentials", "refresh_token"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, n, cfg := guarded(tt.issuer, tt.endpoint)
				var e events
				cfg.Callbacks = []Callback{&e}
				_, stop := start(t, cfg)
				sleep(10 * time.Minute)
				stop()
				if len(s.registers) != 1 || len(s.deregistered) != 1 || slices.Contains(e.seen, "ping 401") {
					t.Errorf("got %d registrations, %d deregistrations, callbacks %q", len(s.registers), len(s.deregistered), e.seen)
				}
				got := tt.issuer.n
				if got < tt.fetched-1 || got > tt.fetched+4 {
					t.Errorf("got %d tokens in ten minutes, want about %d", got, tt.fetched)
				}
				// No request was sent with an expired token.
				if calls := n.Calls("a") + n.Calls("b") + n.Calls("c"); calls != 2+len(s.pings) {
					t.Errorf("got %d requests, want %d", calls, 2+len(s.pings))
				}
				seen := slices.Compact(slices.Sorted(slices.Values(tt.issuer.grants)))
				if !slices.Equal(seen, tt.grants) {
					t.Errorf("got grants %q, want %q", seen, tt.grants)
				}
			})
		})
	}
}

// A refused token is renewed at once, without an error in callbacks.
func TestManagerRenewsRefusedToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := &issuer{discovery: true}
		s, _, cfg := guarded(i, "https://issuer/realm")
		var e events
		cfg.Callbacks = []Callback{&e}
		_, stop := start(t, cfg)
		for range 20 {
			sleep(time.Minute)
			i.revoke()
		}
		stop()
		if len(s.registers) != 1 || i.n < 20 || len(s.services) != 0 {
			t.Errorf("got %d registrations with %d tokens, %d remaining services", len(s.registers), i.n, len(s.services))
		}
		if n := len(slices.Compact(e.seen)); n != 3 {
			t.Errorf("got callbacks %q, want a registration, successful pings and a deregistration", slices.Compact(e.seen))
		}
	})
}

func TestManagerSurvivesIssuerFaults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := &issuer{discovery: true, lives: 5 * time.Minute}
		s, n, cfg := guarded(i, "https://issuer/realm")
		for trouble, h := range map[string]http.HandlerFunc{"gone": nil, "silent": resttest.Silent, "torn": resttest.Torn,
			"500": resttest.Answer(500, "<html>")} {
			n.Serve("issuer", h)
			m, stop := start(t, cfg)
			sleep(10 * time.Minute)
			if m.Phase() != Initial {
				t.Errorf("%s: got phase %s, want INITIAL", trouble, m.Phase())
			}
			n.Serve("issuer", i.ServeHTTP)
			sleep(time.Minute)
			if m.Phase() != Active {
				t.Errorf("%s: got phase %s afterwards, want ACTIVE", trouble, m.Phase())
			}
			stop()
		}
		if len(s.services) != 0 {
			t.Errorf("got %d remaining services", len(s.services))
		}
	})
}

// If an endpoint fails, the next one is used: every peer is an issuer.
func TestTokensComeFromAnyPeer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := &issuer{discovery: true, lives: time.Minute}
		s, n, cfg := guarded(i, "https://issuer/realm")
		n.Serve("second", i.ServeHTTP)
		cfg.TokenEndpoints = append(cfg.TokenEndpoints, "https://second/realm")
		_, stop := start(t, cfg)
		sleep(5 * time.Minute)
		n.Serve("issuer", nil)
		sleep(5 * time.Minute)
		n.Serve("issuer", i.ServeHTTP)
		n.Serve("second", resttest.Silent)
		sleep(5 * time.Minute)
		stop()
		if len(s.registers) != 1 || len(s.pings) < 15*12-4 {
			t.Errorf("got %d registrations and %d pings in 15 minutes", len(s.registers), len(s.pings))
		}
	})
}

// A hanging issuer costs the two seconds until the next one is tried, not a timeout, so no ping is
// late.
func TestHangingIssuerIsRaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := &issuer{discovery: true, lives: time.Minute}
		s, n, cfg := guarded(i, "https://issuer/realm")
		n.Serve("second", i.ServeHTTP)
		n.Serve("issuer", resttest.Silent)
		cfg.TokenEndpoints = append(cfg.TokenEndpoints, "https://second/realm")
		began := time.Now()
		m, stop := start(t, cfg)
		defer stop()
		sleep(hedge.First + 100*time.Millisecond)
		if m.Phase() != Registered {
			t.Errorf("got %s after %v with %d registrations, want REGISTERED", m.Phase(), time.Since(began), len(s.registers))
		}
	})
}

func TestSecretIsNotLeaked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		i := &issuer{discovery: true}
		_, n, cfg := guarded(i, "https://issuer/realm")
		cfg.Secret = "wr0ng-s3cret"
		cfg.Logger = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
		_, stop := start(t, cfg)
		sleep(time.Minute)
		// This issuer redirects its clients to an unencrypted endpoint.
		n.Serve("issuer", resttest.Answer(200, `{"token_endpoint":"http://elsewhere/token"}`))
		sleep(time.Minute)
		stop()
		if n.Calls("elsewhere") != 0 {
			t.Error("got the secret sent unencrypted to another machine")
		}
		for _, want := range []string{"invalid_client no such client", "refusing to send the secret over http"} {
			if !strings.Contains(log.String(), want) {
				t.Errorf("log: got no %q:\n%s", want, log.String())
			}
		}
		if strings.Contains(log.String(), "s3cret") {
			t.Errorf("log: got the secret:\n%s", log.String())
		}
	})
}
