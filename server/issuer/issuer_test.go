package issuer

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"

	"github.com/holdfast-metal/holdfast/internal/secrets"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
	"github.com/holdfast-metal/holdfast/server/auth"
)

// fetch gets an access token like a real client: discovery first, then the token endpoint.
func fetch(
	t *testing.T, s *httptest.Server, iss, id, secret string, style oauth2.AuthStyle,
) (*oidc.Provider, *oauth2.Token, error) {
	t.Helper()
	ctx := context.WithValue(t.Context(), oauth2.HTTPClient, s.Client())
	p, err := oidc.NewProvider(ctx, iss)
	if err != nil {
		t.Fatalf("discover %s: %v", iss, err)
	}
	c := clientcredentials.Config{ClientID: id, ClientSecret: secret, TokenURL: p.Endpoint().TokenURL, AuthStyle: style,
		Scopes: []string{"openid"}}
	tok, err := c.Token(ctx)
	return p, tok, err
}

// use calls a route for services and returns the caller's identity.
func use(t *testing.T, s *httptest.Server, token string) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL+"/protected", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+token)
	resp, err := s.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}

func TestRealClient(t *testing.T) {
	l := newLab(t)
	id, secret := l.client("tok-svc", holdfastv1.Role_SERVICE)
	l.turn(l.rotator(0), time.Now())
	one, _ := l.serve("")
	two, _ := l.serve("https://holdfast.example/oidc")
	for _, tc := range []struct {
		name, path string
		style      oauth2.AuthStyle
	}{
		{"basic", "/oidc", oauth2.AuthStyleInHeader},
		{"form", "/oidc", oauth2.AuthStyleInParams},
		{"the default of the SDK", "/q/oidc", oauth2.AuthStyleInHeader},
		{"as a realm", "/realms/wanaku", oauth2.AuthStyleInHeader},
		{"the token endpoint as issuer", "/realms/wanaku/protocol/openid-connect/token", oauth2.AuthStyleInParams},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p, tok, err := fetch(t, one, one.URL+tc.path, id, secret, tc.style)
			if err != nil {
				t.Fatal(err)
			}
			if tok.TokenType != "Bearer" || time.Until(tok.Expiry) > DefaultTTL ||
				time.Until(tok.Expiry) < DefaultTTL-time.Minute {
				t.Errorf("got a token of type %s until %s", tok.TokenType, tok.Expiry)
			}
			// Others can verify the token with the published keys.
			ctx := oidc.ClientContext(t.Context(), one.Client())
			v, err := p.Verifier(&oidc.Config{ClientID: auth.AccessAudience, SupportedSigningAlgs: []string{"ES256"},
				SkipIssuerCheck: strings.HasSuffix(tc.path, "/token")}).Verify(ctx, tok.AccessToken)
			if err != nil {
				t.Fatal(err)
			}
			var c claims
			if err := v.Claims(&c); err != nil || c.ClientID != id || c.TokenID != id || v.Subject != "service:tok-svc" ||
				c.ID == "" {
				t.Errorf("got claims %+v, %v, subject %s", c, err, v.Subject)
			}
			for name, s := range map[string]*httptest.Server{"the peer that made it": one, "another peer": two} {
				if code, who := use(t, s, tok.AccessToken); code != 200 || who != "service:tok-svc" {
					t.Errorf("%s: got %d %s", name, code, who)
				}
			}
		})
	}
}

func TestConfiguredIssuer(t *testing.T) {
	l := newLab(t)
	l.turn(l.rotator(0), time.Now())
	s, _ := l.serve("https://holdfast.example/auth/")
	for _, path := range []string{"/oidc", "/auth"} {
		resp, err := s.Client().Get(s.URL + path + "/.well-known/openid-configuration")
		if err != nil {
			t.Fatal(err)
		}
		var d document
		err = json.NewDecoder(resp.Body).Decode(&d)
		_ = resp.Body.Close()
		if err != nil || d.Issuer != "https://holdfast.example/auth" ||
			d.TokenEndpoint != "https://holdfast.example/auth/token" || d.JWKSURI != "https://holdfast.example/auth/jwks" {
			t.Errorf("%s: %+v, %v", path, d, err)
		}
	}
	for _, bad := range []string{"holdfast.example", "ftp://x/oidc", "https://u:p@x/oidc", "https://x/oidc?a=b",
		"https://x/#f", "https://"} {
		if _, err := New(Config{URL: bad}, l, l.keys, l.gate); err == nil {
			t.Errorf("URL %q: got no error", bad)
		}
	}
}

// Revoking a client takes effect at once, even if it holds valid access tokens.
func TestRevokedClient(t *testing.T) {
	l := newLab(t)
	id, secret := l.client("tok-svc", holdfastv1.Role_SERVICE)
	l.turn(l.rotator(0), time.Now())
	s, _ := l.serve("")
	_, tok, err := fetch(t, s, s.URL+"/oidc", id, secret, oauth2.AuthStyleInHeader)
	if err != nil {
		t.Fatal(err)
	}
	l.must(&internalv1.Command{Op: &internalv1.Command_RevokeToken{RevokeToken: &internalv1.RevokeToken{TokenId: id}}})
	if code, body := use(t, s, tok.AccessToken); code != 401 {
		t.Errorf("access token of a revoked client: got %d %s", code, body)
	}
	_, _, err = fetch(t, s, s.URL+"/oidc", id, secret, oauth2.AuthStyleInHeader)
	var refused *oauth2.RetrieveError
	if !errors.As(err, &refused) || refused.ErrorCode != "invalid_client" || refused.Response.StatusCode != 401 {
		t.Errorf("new token of a revoked client: got %v", err)
	}
}

// Tokens stay valid across a key rotation until they expire, and new ones are signed with
// the new key.
func TestRotationUnderClients(t *testing.T) {
	l := newLab(t)
	id, secret := l.client("tok-svc", holdfastv1.Role_SERVICE)
	r := l.rotator(4 * time.Minute)
	start := time.Now().Add(-4*time.Minute - 2*time.Second) // tokens issued below are then current
	l.turn(r, start)
	first := l.View().SigningKeys()
	l.turn(r, start.Add(3*time.Minute))
	if n := len(l.View().SigningKeys()); len(first) != 1 || n != 2 {
		t.Fatalf("got %d keys, then %d, want the next one published ahead", len(first), n)
	}
	s, i := l.serve("")
	get := func(at time.Time) string {
		t.Helper()
		i.now = func() time.Time { return at }
		_, tok, err := fetch(t, s, s.URL+"/oidc", id, secret, oauth2.AuthStyleInHeader)
		if err != nil {
			t.Fatal(err)
		}
		return tok.AccessToken
	}
	kid := func(raw string) string {
		var h struct {
			Kid, Typ, Alg string
		}
		part, _, _ := strings.Cut(raw, ".")
		b, err := jsonPart(part)
		if err != nil || json.Unmarshal(b, &h) != nil || h.Typ != "at+jwt" || h.Alg != "ES256" {
			t.Fatalf("got header %s, %v", b, err)
		}
		return h.Kid
	}
	before, after := get(start.Add(3*time.Minute+50*time.Second)), get(start.Add(4*time.Minute+time.Second))
	if kid(before) != first[0].GetKeyId() || kid(after) == kid(before) {
		t.Errorf("got signatures by %s, then %s; the first key is %s", kid(before), kid(after), first[0].GetKeyId())
	}
	i.now = time.Now
	if code, body := use(t, s, before); code != 200 {
		t.Errorf("token of the previous key: got %d %s", code, body)
	}
	// Much later, the first key has been removed.
	l.turn(r, start.Add(time.Hour))
	for _, k := range l.View().SigningKeys() {
		if k.GetKeyId() == first[0].GetKeyId() {
			t.Error("got the first key, want it removed")
		}
	}
	if code, _ := use(t, s, before); code != 401 {
		t.Errorf("token of a removed key: got %d", code)
	}
}

// The signing key stays in use when it is sealed again under another secrets key.
func TestResealedSigningKey(t *testing.T) {
	l := newLab(t)
	id, secret := l.client("tok-svc", holdfastv1.Role_SERVICE)
	l.turn(l.rotator(0), time.Now())
	next, err := secrets.NewKeyLine("k2")
	if err != nil {
		t.Fatal(err)
	}
	old, err := os.ReadFile(l.file)
	if err != nil {
		t.Fatal(err)
	}
	both := l.file + "2"
	if err := os.WriteFile(both, []byte(next+"\n"+string(old)), 0o600); err != nil {
		t.Fatal(err)
	}
	k, err := secrets.Open(both, nil)
	if err != nil {
		t.Fatal(err)
	}
	sealed, err := k.ResealKey(l.View().SigningKeys()[0])
	if err != nil {
		t.Fatal(err)
	}
	l.must(&internalv1.Command{
		Op: &internalv1.Command_ResealSecrets{
			ResealSecrets: &internalv1.ResealSecrets{Keys: []*internalv1.SigningKey{sealed}}}})
	if err := os.WriteFile(l.file, []byte(next), 0o600); err != nil {
		t.Fatal(err)
	}
	if l.keys, err = secrets.Open(l.file, nil); err != nil {
		t.Fatal(err)
	}
	s, _ := l.serve("")
	if _, _, err := fetch(t, s, s.URL+"/oidc", id, secret, oauth2.AuthStyleInHeader); err != nil {
		t.Error(err)
	}
}

func TestWithoutKeys(t *testing.T) {
	l := newLab(t)
	id, secret := l.client("tok-svc", holdfastv1.Role_SERVICE)
	ask := func(want string) {
		t.Helper()
		s, _ := l.serve("")
		for _, path := range []string{"/oidc/.well-known/openid-configuration", "/oidc/jwks", "/oidc/token"} {
			method, body := http.MethodGet, ""
			if path == "/oidc/token" {
				method, body = http.MethodPost, "grant_type=client_credentials&client_id="+id+"&client_secret="+secret
			}
			code, e, h := post(t, s, method, path, body, nil)
			if code != 503 || !strings.Contains(e.Description, want) || h.Get("Retry-After") == "" {
				t.Errorf("%s: got %d %+v, want 503 with %q", path, code, e, want)
			}
		}
	}
	ask("no signing key yet")
	l.turn(l.rotator(0), time.Now())
	good := l.keys
	l.keys = nil
	ask("--secrets-key-file")
	other, err := secrets.NewKeyLine("k9")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(l.file+"9", []byte(other), 0o600); err != nil {
		t.Fatal(err)
	}
	if l.keys, err = secrets.Open(l.file+"9", nil); err != nil {
		t.Fatal(err)
	}
	ask("secrets key k1")
	l.keys = good
}

// post sends a request and returns status, error and headers.
func post(t *testing.T, s *httptest.Server, method, path, body string, header map[string]string) (int, struct {
	Error       string `json:"error"`
	Description string `json:"error_description"`
}, http.Header) {
	t.Helper()
	var e struct {
		Error       string `json:"error"`
		Description string `json:"error_description"`
	}
	r, err := http.NewRequestWithContext(t.Context(), method, s.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	for k, v := range header {
		r.Header.Set(k, v)
	}
	resp, err := s.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	if err := json.NewDecoder(resp.Body).Decode(&e); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return resp.StatusCode, e, resp.Header
}

func TestTokenErrors(t *testing.T) {
	l := newLab(t)
	id, secret := l.client("tok-svc", holdfastv1.Role_SERVICE)
	viewer, viewerSecret := l.client("tok-view", holdfastv1.Role_VIEWER)
	l.turn(l.rotator(0), time.Now())
	s, _ := l.serve("")
	form := func(pairs ...string) string {
		v := url.Values{}
		for i := 0; i < len(pairs); i += 2 {
			v.Add(pairs[i], pairs[i+1])
		}
		return v.Encode()
	}
	good := []string{"grant_type", "client_credentials", "client_id", id, "client_secret", secret}
	basic := func(id, secret string) map[string]string {
		r := &http.Request{Header: http.Header{}}
		r.SetBasicAuth(id, secret)
		return map[string]string{"Authorization": r.Header.Get("Authorization")}
	}
	for _, tc := range []struct {
		name, body string
		header     map[string]string
		code       int
		err        string
	}{
		{"form", form(good...), nil, 200, ""},
		{"basic", "grant_type=client_credentials", basic(id, secret), 200, ""},
		{"basic with client_id in the form too", form("grant_type", "client_credentials", "client_id", id),
			basic(id, secret), 200, ""},
		{"unknown parameters", form(append(good, "audience", "x", "resource", "y")...), nil, 200, ""},
		{"a charset", form(good...), map[string]string{"Content-Type": "application/x-www-form-urlencoded; charset=UTF-8"},
			200, ""},
		{"no grant type", form(good[2:]...), nil, 400, "invalid_request"},
		{"another grant", form("grant_type", "password", "client_id", id, "client_secret", secret), nil, 400,
			"unsupported_grant_type"},
		{"no client", "grant_type=client_credentials", nil, 401, "invalid_client"},
		{"a wrong secret", form("grant_type", "client_credentials", "client_id", id, "client_secret", viewerSecret), nil,
			401, "invalid_client"},
		{"wrong secret", form("grant_type", "client_credentials", "client_id", id, "client_secret", "x"), nil, 401,
			"invalid_client"},
		{"another's id", form("grant_type", "client_credentials", "client_id", viewer, "client_secret", secret), nil, 401,
			"invalid_client"},
		{"token of another role", form("grant_type", "client_credentials", "client_id", viewer, "client_secret",
			viewerSecret), nil, 401, "invalid_client"},
		{"invalid Basic header", "grant_type=client_credentials",
			map[string]string{"Authorization": "Bearer " + secret}, 401, "invalid_client"},
		{"both ways at once", form(good...), basic(id, secret), 400, "invalid_request"},
		{"two names", form("grant_type", "client_credentials", "client_id", viewer), basic(id, secret), 400,
			"invalid_request"},
		{"twice", form(append(good, "client_id", id)...), nil, 400, "invalid_request"},
		{"JSON", `{"grant_type":"client_credentials"}`, map[string]string{"Content-Type": "application/json"}, 400,
			"invalid_request"},
		{"no form", "a=%zz", nil, 400, "invalid_request"},
		{"too long", form(append(good, "x", strings.Repeat("y", maxForm))...), nil, 413, "invalid_request"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			code, e, h := post(t, s, http.MethodPost, "/oidc/token", tc.body, tc.header)
			if code != tc.code || e.Error != tc.err || h.Get("Cache-Control") != "no-store" {
				t.Errorf("got %d %+v, Cache-Control %q, want %d %s", code, e, h.Get("Cache-Control"), tc.code, tc.err)
			}
			if (code == 401) != strings.HasPrefix(h.Get("WWW-Authenticate"), "Basic ") {
				t.Errorf("got %d with WWW-Authenticate %q", code, h.Get("WWW-Authenticate"))
			}
			if strings.Contains(e.Description, secret) || strings.Contains(e.Description, viewerSecret) ||
				strings.ContainsAny(e.Description, "\"\\") {
				t.Errorf("got description %s", e.Description)
			}
		})
	}
	// Secrets in the URL are ignored.
	if code, e, _ := post(t, s, http.MethodPost, "/oidc/token?"+form(good...), "", nil); code != 401 && code != 400 {
		t.Errorf("credentials in the URL: got %d %+v", code, e)
	}
}

// TestErrorDescription checks that a description has only the characters of RFC 6749 §5.2.
func TestErrorDescription(t *testing.T) {
	w := httptest.NewRecorder()
	refuse(w, http.StatusForbidden, "access_denied", "host \"a\\nb…\": use `localhost`")
	want := `{"error":"access_denied","error_description":"host 'a/nb?': use 'localhost'"}` + "\n"
	if got := w.Body.String(); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
