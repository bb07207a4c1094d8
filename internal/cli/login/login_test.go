package login

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-metal/holdfast/internal/oidctest"
)

func settings() oidctest.Settings {
	return oidctest.Settings{ClientID: "cli", Audience: "holdfast"}
}

func begin(t *testing.T, p *oidctest.Provider) *Flow {
	t.Helper()
	f, err := New(t.Context(), Issuer{URL: p.URL, ClientID: "cli", Audience: "holdfast", Scopes: []string{"openid"}})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestDevice(t *testing.T) {
	for _, tt := range []struct {
		name    string
		change  func(*oidctest.Settings)
		want    string // in the error; empty: none
		timeout bool
	}{
		{"confirmed", func(*oidctest.Settings) {}, "", false},
		{"denied", func(s *oidctest.Settings) { s.Deny = "access_denied" }, "it was denied there", false},
		{"the code expires", func(s *oidctest.Settings) { s.Expired = true }, "the code has expired", true},
		{"not allowed for the client", func(s *oidctest.Settings) { s.Deny = "unauthorized_client" },
			"enables this flow for the client cli", false},
		{"no such flow", func(s *oidctest.Settings) { s.NoDevice = true }, ErrNoDevice.Error(), false},
		{"tokens for others", func(s *oidctest.Settings) { s.Audience = "grafana" }, `with the audience "holdfast"`, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p := oidctest.New(t, settings())
			p.Set(tt.change)
			var shown Prompt
			got, err := begin(t, p).Device(t.Context(), func(q Prompt) { shown = q })
			if tt.want != "" {
				if err == nil || !strings.Contains(err.Error(), tt.want) || errors.Is(err, context.DeadlineExceeded) != tt.timeout {
					t.Errorf("got %v, want %q", err, tt.want)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if shown.Code != oidctest.UserCode || shown.URL != p.URL+"/activate" || time.Until(shown.Until) < time.Minute {
				t.Errorf("got %+v", shown)
			}
			c, _ := claimsOf(got.Token)
			want := Saved{Issuer: p.URL, ClientID: "cli", TokenURL: p.URL + "/token", Audience: "holdfast", Token: got.Token,
				Expires: time.Unix(int64(c.Expires), 0), Refresh: got.Refresh}
			if diff := cmp.Diff(want, got); diff != "" || got.Refresh == "" || c.Audience[0] != "holdfast" {
				t.Errorf("got claims %+v, sign-in (-want +got):\n%s", c, diff)
			}
		})
	}
}

func TestBrowser(t *testing.T) {
	for _, tt := range []struct{ name, deny, want string }{
		{"signed in", "", ""},
		{"denied", "access_denied", "it was denied there"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := oidctest.New(t, settings())
			p.Set(func(s *oidctest.Settings) { s.Deny = tt.deny })
			pages := make(chan string, 2)
			got, err := begin(t, p).Browser(t.Context(), func(address string) {
				go func() {
					defer close(pages)
					u, err := url.Parse(address)
					if err != nil {
						return
					}
					for _, page := range []string{u.Query().Get("redirect_uri") + "?code=x&state=made-up", address} {
						resp, err := http.Get(page)
						if err != nil {
							return
						}
						b, _ := io.ReadAll(resp.Body)
						_ = resp.Body.Close()
						pages <- string(b)
					}
				}()
			})
			if tt.want == "" && (err != nil || got.Token == "" || p.Last().Get("code_verifier") == "") ||
				tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("got %+v, %v, want %q", got, err, tt.want)
			}
			if first, second := <-pages, <-pages; !strings.Contains(first, "not begun by the command") ||
				strings.Contains(second, "You are signed in") != (tt.want == "") {
				t.Errorf("got pages %q and %q", first, second)
			}
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	f := begin(t, oidctest.New(t, settings()))
	if _, err := f.Browser(ctx, func(string) {}); !errors.Is(err, context.Canceled) {
		t.Errorf("canceled: got %v", err)
	}
}

func TestNewNeedsHTTPS(t *testing.T) {
	_, err := New(t.Context(), Issuer{URL: "http://sso.example"})
	if err == nil || !strings.Contains(err.Error(), "want https") {
		t.Errorf("got %v", err)
	}
}

// signedIn returns the store and the sign-in of a context, whose token expires in a time.
func signedIn(t *testing.T, p *oidctest.Provider, left time.Duration) (Store, Saved) {
	t.Helper()
	f := begin(t, p)
	v, err := f.Browser(t.Context(), func(address string) {
		go func() {
			if resp, err := http.Get(address); err == nil {
				_ = resp.Body.Close()
			}
		}()
	})
	if err != nil {
		t.Fatal(err)
	}
	v.Expires = time.Now().Add(left)
	s := At(filepath.Join(t.TempDir(), "config.yaml"), "prod")
	if err := s.Save(v); err != nil {
		t.Fatal(err)
	}
	return s, v
}

// TestRefresh: an expired token is refreshed once, whichever process needs it first.
func TestRefresh(t *testing.T) {
	p := oidctest.New(t, settings())
	store, v := signedIn(t, p, -time.Minute)
	before := p.Asked("/token")
	sources := []*Source{NewSource(store, v, time.Now), NewSource(store, v, time.Now)}
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			token, err := sources[i%2].Token(t.Context())
			if err != nil || token == v.Token {
				t.Errorf("got %q, %v, want another token", token, err)
			}
		})
	}
	wg.Wait()
	if n := p.Asked("/token") - before; n != 1 {
		t.Errorf("got %d refreshes, want 1", n)
	}
	if now, _, err := store.Load(); err != nil || now.Refresh == v.Refresh || !now.Expires.After(time.Now()) {
		t.Errorf("got stored %+v, %v", now, err)
	}
}

func TestTokenErrors(t *testing.T) {
	for _, tt := range []struct {
		name   string
		left   time.Duration
		change func(*oidctest.Settings)
		store  func(Store, *Saved) error
		want   string // in the error; empty: the old token
	}{
		{"fresh", time.Hour, func(s *oidctest.Settings) { s.Down = true }, nil, ""},
		{"about to expire, issuer down", 10 * time.Second, func(s *oidctest.Settings) { s.Down = true }, nil, ""},
		{"expired, issuer down", -time.Second, func(s *oidctest.Settings) { s.Down = true }, nil,
			"503 Service Unavailable: retry"},
		{"session ended", -time.Second, func(s *oidctest.Settings) { s.NoRefresh = true }, nil,
			"has ended: run: holdfast login"},
		{"no refresh token", -time.Second, nil, func(s Store, v *Saved) error {
			v.Refresh = ""
			return s.Save(*v)
		}, "run: holdfast login"},
		{"signed out meanwhile", -time.Second, nil, func(s Store, _ *Saved) error { return s.Delete() },
			"run: holdfast login"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := oidctest.New(t, settings())
			store, v := signedIn(t, p, tt.left)
			if tt.change != nil {
				p.Set(tt.change)
			}
			if tt.store != nil {
				if err := tt.store(store, &v); err != nil {
					t.Fatal(err)
				}
			}
			token, err := NewSource(store, v, time.Now).Token(t.Context())
			if tt.want == "" && (err != nil || token != v.Token) ||
				tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("got %q, %v, want %q", token, err, tt.want)
			}
		})
	}
}

func TestStore(t *testing.T) {
	dir := t.TempDir()
	s := At(filepath.Join(dir, "config.yaml"), "../prod")
	if _, ok, err := s.Load(); ok || err != nil {
		t.Errorf("no sign-in: got %t, %v", ok, err)
	}
	want := Saved{Issuer: "https://sso.example", Token: "t", Expires: time.Unix(1, 0).UTC()}
	if err := s.Save(want); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "config-logins", "..%2Fprod.json")
	info, err := os.Stat(file)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("got %v, %v, want mode 0600", info, err)
	}
	got, ok, err := s.Load()
	if diff := cmp.Diff(want, got); diff != "" || !ok || err != nil {
		t.Errorf("got %t, %v (-want +got):\n%s", ok, err, diff)
	}
	if err := os.WriteFile(file, []byte(`{"token":"s3cret`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.Load(); err == nil || strings.Contains(err.Error(), "s3cret") {
		t.Errorf("damaged: got %v", err)
	}
	if err := os.Chmod(file, 0o640); err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.Load(); err == nil || !strings.Contains(err.Error(), "chmod 600") {
		t.Errorf("readable by others: got %v", err)
	}
	for range 2 { // the second time there is none
		if err := s.Delete(); err != nil {
			t.Error(err)
		}
	}
	if _, ok, _ := s.Load(); ok {
		t.Error("deleted: got a sign-in")
	}
}
