package ui_test

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/holdfast-metal/holdfast/internal/oidctest"
	"github.com/holdfast-metal/holdfast/internal/secrets"
	"github.com/holdfast-metal/holdfast/server"
	"github.com/holdfast-metal/holdfast/server/auth"
	"github.com/holdfast-metal/holdfast/server/httpjson/apitest"
	"github.com/holdfast-metal/holdfast/server/ui"
)

const here = "http://127.0.0.1:7401"

// provider starts a provider whose access tokens are for the cluster.
func provider(t *testing.T) *oidctest.Provider {
	t.Helper()
	return oidctest.New(t, oidctest.Settings{ClientID: "dashboard", ClientSecret: "client-s3cret", Audience: "holdfast",
		Claims: map[string]any{"roles": []string{"viewer"}}})
}

// issuerAt returns the configuration for a provider.
func issuerAt(t *testing.T, p *oidctest.Provider, name string) auth.Issuer {
	t.Helper()
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("client-s3cret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return auth.Issuer{URL: p.URL, Audience: "holdfast", Roles: map[string]string{"viewer": "viewer"},
		People: auth.People{DisplayName: name, ClientID: "dashboard", ClientSecretFile: secret}}
}

// labSigning is a peer with issuers.
func labSigning(t *testing.T, keys *secrets.Sessions, issuers ...auth.Issuer) *apitest.Lab {
	t.Helper()
	return apitest.WithIssuers(t, issuers, func(m *auth.Mux, rpc grpc.ClientConnInterface, s *server.Server) {
		ui.Register(m, rpc, s, once{}, keys, slog.New(slog.DiscardHandler))
	})
}

// browser has the cookies of one person.
type browser struct {
	t   *testing.T
	jar map[string]*http.Cookie
}

// open requests a page of a peer, with the cookies for its path.
func (b *browser) open(l *apitest.Lab, method, target string) *httptest.ResponseRecorder {
	b.t.Helper()
	r := httptest.NewRequest(method, target, nil)
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	for _, c := range b.jar {
		if strings.HasPrefix(r.URL.Path, c.Path) {
			r.AddCookie(c)
		}
	}
	w := httptest.NewRecorder()
	l.Handler.ServeHTTP(w, r)
	for _, c := range w.Result().Cookies() {
		if b.jar[c.Name] = c; c.MaxAge < 0 {
			delete(b.jar, c.Name)
		}
	}
	return w
}

// authorize opens the issuer's page, and returns the address to which it sends the browser.
func (b *browser) authorize(w *httptest.ResponseRecorder) string {
	b.t.Helper()
	client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := client.Get(w.Header().Get("Location"))
	if err != nil {
		b.t.Fatalf("open %s of %d %s: %v", w.Header().Get("Location"), w.Code, w.Body, err)
	}
	_ = resp.Body.Close()
	return resp.Header.Get("Location")
}

func begin(issuer, next string) string {
	return here + "/ui/signin/with?" + url.Values{"issuer": {issuer}, "next": {next}}.Encode()
}

// TestSignInWithIssuer: one peer begins and another one finishes. The session is that of the
// access token.
func TestSignInWithIssuer(t *testing.T) {
	p := provider(t)
	keys, cfg := sessions(t), issuerAt(t, p, "Example SSO")
	first, second := labSigning(t, keys, cfg), labSigning(t, keys, cfg)
	b := &browser{t: t, jar: map[string]*http.Cookie{}}
	has(t, b.open(first, "GET", here+"/ui/runs?x=1"), 401,
		[]string{"Sign in with Example SSO", "next=%2fui%2fruns%3fx%3d1"})
	w := b.open(first, "GET", begin(p.URL, "/ui/runs?x=1"))
	flow := b.jar["holdfast_signin"]
	if w.Code != 303 || flow == nil || !flow.HttpOnly || flow.SameSite != http.SameSiteLaxMode || flow.MaxAge != 600 {
		t.Fatalf("got %d, cookie %+v", w.Code, flow)
	}
	asked, err := url.Parse(w.Header().Get("Location"))
	if err != nil || strings.Contains(flow.Value, asked.Query().Get("state")) ||
		asked.Query().Get("redirect_uri") != here+auth.CallbackPath || asked.Query().Get("scope") != "openid profile" {
		t.Errorf("got %s, %v, cookie %s", asked, err, flow.Value)
	}
	back := b.authorize(w)
	w = b.open(second, "GET", back)
	if w.Code != 303 || w.Header().Get("Location") != "/ui/runs?x=1" || b.jar["holdfast_signin"] != nil {
		t.Fatalf("got %d to %q: %s", w.Code, w.Header().Get("Location"), w.Body)
	}
	session := b.jar["holdfast_token"]
	if !session.HttpOnly || session.SameSite != http.SameSiteStrictMode || session.MaxAge < 3500 || session.MaxAge > 3600 {
		t.Errorf("got session %+v, want the lifetime of the token", session)
	}
	host := strings.TrimPrefix(p.URL, "http://")
	for _, l := range []*apitest.Lab{first, second} {
		has(t, b.open(l, "GET", here+"/ui/runs"), 200, []string{"user:alice@" + host, "viewer"})
	}
	replay := &browser{t: t, jar: map[string]*http.Cookie{"f": flow}}
	has(t, replay.open(first, "GET", back), 401, []string{"has expired or was used before"})

	stolen := *session
	w = b.open(first, "POST", here+"/ui/signout")
	has(t, b.open(first, "GET", here+w.Header().Get("Location")), 200,
		[]string{"You are signed out here", p.URL + "/logout?client_id=dashboard"})
	has(t, b.open(first, "GET", here+"/ui/runs"), 401, nil, "alice")
	thief := &browser{t: t, jar: map[string]*http.Cookie{"s": &stolen}}
	has(t, thief.open(first, "GET", here+"/ui/runs"), 401, []string{"the session was ended"}, "alice")
}

// TestIDTokenSession: if the access token is not for the cluster, the session is that of the ID
// token, which must be.
func TestIDTokenSession(t *testing.T) {
	for _, tt := range []struct {
		name, audience string
		code           int
	}{
		{"the audience is the client", "dashboard", 303},
		{"the audience is another one", "holdfast", 401},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := provider(t)
			p.Set(func(s *oidctest.Settings) { s.Audience = "" })
			cfg := issuerAt(t, p, "SSO")
			cfg.Audience = tt.audience
			l, b := labSigning(t, sessions(t), cfg), &browser{t: t, jar: map[string]*http.Cookie{}}
			w := b.open(l, "GET", b.authorize(b.open(l, "GET", begin(p.URL, "/ui/"))))
			if w.Code != tt.code || (b.jar["holdfast_token"] != nil) != (tt.code == 303) {
				t.Errorf("got %d, cookies %v: %s", w.Code, b.jar, w.Body)
			}
		})
	}
}

// TestFailedSignIns: each failure shows a sentence, begins no session, and is in the audit trail.
func TestFailedSignIns(t *testing.T) {
	good, other := provider(t), provider(t)
	keys := sessions(t)
	l := labSigning(t, keys, issuerAt(t, good, "Example SSO"), issuerAt(t, other, "Other"))
	stranger := labSigning(t, sessions(t), issuerAt(t, good, "Example SSO"))
	reset := func(change func(*oidctest.Settings)) {
		good.Set(func(s *oidctest.Settings) {
			*s = oidctest.Settings{ClientID: "dashboard", ClientSecret: "client-s3cret", Audience: "holdfast"}
			change(s)
		})
	}
	same := func(s string) string { return s }
	param := func(name, value string) func(string) string {
		return func(s string) string {
			u, err := url.Parse(s)
			if err != nil {
				t.Fatal(err)
			}
			q := u.Query()
			q.Set(name, value)
			u.RawQuery = q.Encode()
			return u.String()
		}
	}
	for _, tt := range []struct {
		name   string
		op     func(*oidctest.Settings)
		at     *apitest.Lab               // where the sign-in begins
		cookie func(b *browser)           // before the answer
		back   func(answer string) string // the answer that arrives
		code   int
		want   string
	}{
		{"another state", nil, l, nil, param("state", "x"), 401, "was not begun in this browser"},
		{"no state", nil, l, nil, param("state", ""), 401, "was not begun in this browser"},
		{"no cookie", nil, l, func(b *browser) { clear(b.jar) }, same, 401, "was not begun in this browser"},
		{"the cookie of another sign-in", nil, l, func(b *browser) { b.open(l, "GET", begin(good.URL, "/ui/")) }, same, 401,
			"was not begun in this browser"},
		{"the cookie of another issuer", nil, l, func(b *browser) { b.open(l, "GET", begin(other.URL, "/ui/")) }, same, 401,
			"was not begun in this browser"},
		{"the answer of another issuer", nil, l, nil, param("iss", other.URL), 401, "was not begun in this browser"},
		{"the cookie of another cluster", nil, stranger, nil, same, 401, "was not begun in this browser"},
		{"a made-up code", nil, l, nil, param("code", "x"), 401, "has expired or was used before"},
		{"an expired code", func(s *oidctest.Settings) { s.Expired = true }, l, nil, same, 401,
			"has expired or was used before"},
		{"another access token", func(s *oidctest.Settings) { s.AtHash = "x" }, l, nil, same, 401,
			"belongs to another sign-in"},
		{"an access token of another person", func(s *oidctest.Settings) { s.IDClaims = map[string]any{"sub": "bob"} }, l,
			nil, same, 401, "belongs to another sign-in"},
		{"another nonce", func(s *oidctest.Settings) { s.Nonce = "x" }, l, nil, same, 401, "belongs to another sign-in"},
		{"another audience", func(s *oidctest.Settings) { s.Audience = "grafana" }, l, nil, same, 401, "audience"},
		{"an expired token", func(s *oidctest.Settings) { s.Lifetime = -time.Minute }, l, nil, same, 401, "an expiry"},
		{"another secret", func(s *oidctest.Settings) { s.ClientSecret = "changed" }, l, nil, same, 401,
			"refuses this cluster&#39;s client"},
		{"access denied", func(s *oidctest.Settings) { s.Deny = "access_denied" }, l, nil, same, 401,
			"you canceled. It says: not today."},
		{"an error with a script", func(s *oidctest.Settings) { s.Deny = evil }, l, nil, same, 401, "&lt;script&gt;"},
		{"the issuer is down", nil, l, func(*browser) { good.Set(func(s *oidctest.Settings) { s.Down = true }) }, same, 503,
			"cannot"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			reset(func(s *oidctest.Settings) {
				if tt.op != nil {
					tt.op(s)
				}
			})
			b := &browser{t: t, jar: map[string]*http.Cookie{}}
			answer := tt.back(b.authorize(b.open(tt.at, "GET", begin(good.URL, "/ui/runs"))))
			if tt.cookie != nil {
				tt.cookie(b)
			}
			w := b.open(l, "GET", answer)
			has(t, w, tt.code, []string{tt.want, "Sign in with Example SSO"}, evil, "client-s3cret")
			if len(b.jar) > 0 {
				t.Errorf("got cookies %v, want none", b.jar)
			}
			if u, err := url.Parse(answer); err == nil && u.Query().Has("code") && len(u.Query().Get("code")) > 9 &&
				strings.Contains(w.Body.String(), u.Query().Get("code")) {
				t.Error("got the code in the page")
			}
		})
	}
	deadline := time.Now().Add(5 * time.Second)
	for _, reason := range []string{auth.ReasonSignInState, auth.ReasonSignInRefused, auth.ReasonTokenInvalid} {
		want := "GET " + auth.CallbackPath + "  192.0.2.1 " + reason
		for !slices.Contains(l.Denied(), want) {
			if time.Now().After(deadline) {
				t.Fatalf("got audit events %q, want %q", l.Denied(), want)
			}
			<-time.After(20 * time.Millisecond) // sleep: events are written once a second
		}
	}
}

// TestBeginSignIn: a sign-in begins with a configured issuer only, and returns to the dashboard
// only.
func TestBeginSignIn(t *testing.T) {
	p := provider(t)
	cfg := issuerAt(t, p, "Example SSO")
	l := labSigning(t, sessions(t), cfg)
	for _, next := range []string{"https://evil.example/ui/", "//evil.example/ui/", "/ui/../x", "javascript:alert(1)"} {
		b := &browser{t: t, jar: map[string]*http.Cookie{}}
		w := b.open(l, "GET", b.authorize(b.open(l, "GET", begin(p.URL, next))))
		if got := w.Header().Get("Location"); w.Code != 303 || got != "/ui/" {
			t.Errorf("next %q: got %d to %q", next, w.Code, got)
		}
	}
	b := &browser{t: t, jar: map[string]*http.Cookie{}}
	has(t, b.open(l, "GET", begin("https://evil.example", "/ui/")), 404, []string{"no such identity provider"})
	plain := strings.Replace(begin(p.URL, "/ui/"), here, "http://n1.example:7401", 1)
	has(t, b.open(l, "GET", plain), 409, []string{"needs https"})
	w := b.open(l, "GET", strings.Replace(plain, "http:", "https:", 1))
	back := url.QueryEscape("https://n1.example:7401" + auth.CallbackPath)
	if got := w.Header().Get("Location"); !strings.Contains(got, back) ||
		!b.jar["__Host-holdfast_signin"].Secure {
		t.Errorf("https: got %d to %s, cookies %v", w.Code, got, b.jar)
	}

	cfg.RedirectURL = "https://holdfast.example" + auth.CallbackPath
	l = labSigning(t, sessions(t), cfg)
	clear(b.jar)
	w = b.open(l, "GET", begin(p.URL, "/ui/runs"))
	moved := w.Header().Get("Location")
	if !strings.HasPrefix(moved, "https://holdfast.example/ui/signin/with?") || len(b.jar) > 0 {
		t.Fatalf("redirect_url: got %d to %s, cookies %v", w.Code, moved, b.jar)
	}
	w = b.open(l, "GET", strings.Replace(moved, "https://holdfast.example", here, 1)) // as a proxy may forward it
	if got := w.Header().Get("Location"); !strings.Contains(got, url.QueryEscape(cfg.RedirectURL)) {
		t.Errorf("behind a proxy: got %d to %s", w.Code, got)
	}
	p.Set(func(s *oidctest.Settings) { s.Down = true })
	l = labSigning(t, sessions(t), issuerAt(t, p, "Example SSO"))
	has(t, b.open(l, "GET", begin(p.URL, "/ui/")), 503, []string{"cannot fetch", "Sign in with Example SSO"})
}

// TestPageStreamEnds: the stream of an open page ends with the session.
func TestPageStreamEnds(t *testing.T) {
	p := provider(t)
	l := labSigning(t, sessions(t), issuerAt(t, p, "Example SSO"))
	p.Set(func(s *oidctest.Settings) { s.Lifetime = 2 * time.Second })
	b := &browser{t: t, jar: map[string]*http.Cookie{}}
	b.open(l, "GET", b.authorize(b.open(l, "GET", begin(p.URL, "/ui/"))))
	got := make(chan *httptest.ResponseRecorder, 1)
	go func() { got <- b.open(l, "GET", here+"/ui/events") }() // returns when the stream has ended
	select {
	case w := <-got:
		has(t, w, 200, []string{"event: hello"})
	case <-time.After(30 * time.Second):
		t.Fatal("the stream is still open 30 s after the token has expired")
	}
	has(t, b.open(l, "GET", here+"/ui/runs"), 401, nil)
}
