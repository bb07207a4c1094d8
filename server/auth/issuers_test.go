package auth

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// idp is a real OIDC issuer on loopback, with the endpoints that a verifier needs.
type idp struct {
	*httptest.Server
	keys  atomic.Pointer[[]*signer]
	asked atomic.Int32
	hang  atomic.Bool
}

func newIDP(t testing.TB, keys ...*signer) *idp {
	t.Helper()
	p := &idp{}
	p.keys.Store(&keys)
	end := make(chan struct{})
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.asked.Add(1)
		if p.hang.Load() {
			select {
			case <-r.Context().Done():
			case <-end:
			}
			return
		}
		switch r.URL.Path {
		case "/.well-known/openid-configuration":
			_ = json.NewEncoder(w).Encode(map[string]any{"issuer": p.URL, "jwks_uri": p.URL + "/keys",
				"id_token_signing_alg_values_supported": []string{"ES256"}})
		case "/keys":
			set := jose.JSONWebKeySet{}
			for _, k := range *p.keys.Load() {
				set.Keys = append(set.Keys, k.jwk())
			}
			_ = json.NewEncoder(w).Encode(set)
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(func() {
		close(end)
		p.Close()
	})
	return p
}

// claims returns the claims of a user, with changes.
func (p *idp) claims(more map[string]any) map[string]any {
	c := map[string]any{"iss": p.URL, "sub": "alice", "aud": "holdfast-dc1", "exp": time.Now().Add(time.Hour).Unix(),
		"iat": time.Now().Unix()}
	for k, v := range more {
		if v == nil {
			delete(c, k)
		} else {
			c[k] = v
		}
	}
	return c
}

func TestIssuer(t *testing.T) {
	key, other := newSigner(t, "a"), newSigner(t, "a")
	p := newIDP(t, key)
	host := strings.TrimPrefix(p.URL, "http://")
	same := map[string]string{"operator": "operator", "viewer": "viewer", "admin": "admin",
		"operator@a": "operator@a", "operator@b": "operator@b"}
	plain := Issuer{URL: p.URL, Audience: "holdfast-dc1", Roles: same}
	unmapped := Issuer{URL: p.URL, Audience: "holdfast-dc1"}
	mapped := Issuer{URL: p.URL, Audience: "holdfast-dc1", UserClaim: "preferred_username",
		RolesClaim: "realm_access.roles",
		Roles:      map[string]string{"dc-ops": "operator@gpu", "dc-root": "admin"}}
	pooled := Issuer{URL: p.URL, Audience: "holdfast-dc1", PoolsClaim: "pools", Roles: same}
	id := func(name string, role holdfastv1.Role_Value, pools ...string) *holdfastv1.Identity {
		return &holdfastv1.Identity{Principal: "user:" + name + "@" + host, Role: role, Pools: pools, Method: MethodOIDC}
	}
	for _, tt := range []struct {
		name   string
		cfg    Issuer
		by     *signer
		claims map[string]any
		want   *holdfastv1.Identity
		reason string
	}{
		{"no role", plain, key, nil, id("alice", 0), ""},
		{"an issuer's own admin", unmapped, key, map[string]any{"roles": []string{"admin", "viewer"}}, id("alice", 0), ""},
		{"backup", plain, key, map[string]any{"roles": []string{"backup"}}, id("alice", 0), ""},
		{"backup without a map", unmapped, key, map[string]any{"roles": []string{"backup"}}, id("alice", 0), ""},
		{"a role", plain, key, map[string]any{"roles": []string{"x", "operator@a", "operator@b"}},
			id("alice", holdfastv1.Role_OPERATOR, "a", "b"), ""},
		{"roles in words", plain, key, map[string]any{"roles": "openid viewer"}, id("alice", holdfastv1.Role_VIEWER), ""},
		{"translated", mapped, key,
			map[string]any{"preferred_username": "al",
				"realm_access": map[string]any{"roles": []string{"dc-ops", "admin"}}}, id("al", holdfastv1.Role_OPERATOR,
				"gpu"), ""},
		{"claims of another form", mapped, key, map[string]any{"preferred_username": "al", "realm_access": 7}, id("al", 0),
			""},
		{"pools", pooled, key, map[string]any{"roles": "operator", "pools": []string{"b", "a"}},
			id("alice", holdfastv1.Role_OPERATOR, "a", "b"), ""},
		{"pools within a role's", pooled, key, map[string]any{"roles": "operator@a", "pools": []string{"b", "a"}},
			id("alice", holdfastv1.Role_OPERATOR, "a"), ""},
		{"pools missing", pooled, key, map[string]any{"roles": "operator"}, id("alice", 0), ""},
		{"admins have no pools", pooled, key, map[string]any{"roles": "admin"}, id("alice", holdfastv1.Role_ADMIN), ""},
		{"nameless", plain, key, map[string]any{"sub": nil}, nil, ReasonTokenInvalid},
		{"a name of another form", plain, key, map[string]any{"sub": "a\nb"}, nil, ReasonTokenInvalid},
		{"signed by another key", plain, other, nil, nil, ReasonTokenInvalid},
		{"for others", plain, key, map[string]any{"aud": "holdfast-dc2"}, nil, ReasonTokenInvalid},
		{"for many", plain, key, map[string]any{"aud": []string{"x", "holdfast-dc1"}}, id("alice", 0), ""},
		{"expired", plain, key, map[string]any{"exp": time.Now().Add(-time.Minute).Unix()}, nil, ReasonTokenExpired},
		{"without an end", plain, key, map[string]any{"exp": nil}, nil, ReasonTokenExpired},
		{"not yet", plain, key, map[string]any{"nbf": time.Now().Add(time.Hour).Unix()}, nil, ReasonTokenEarly},
		{"unknown issuer", plain, key, map[string]any{"iss": "https://evil.example"}, nil,
			ReasonTokenUnknown},
		{"issuer with another spelling", plain, key, map[string]any{"iss": p.URL + "/"}, nil, ReasonTokenUnknown},
	} {
		t.Run(tt.name, func(t *testing.T) {
			g := newGate(t, &fakeRecords{}, Config{Issuers: []Issuer{tt.cfg}})
			c, err := g.identify(context.Background(),
				&presented{source: "10.0.0.1", bearer: []string{"Bearer " + tt.by.sign(t, p.claims(tt.claims))}})
			if got := reasonOf(err); got != tt.reason {
				t.Fatalf("got %q (%v), want %q", got, err, tt.reason)
			}
			var got *holdfastv1.Identity
			if c != nil {
				got = c.Identity
			}
			if diff := cmp.Diff(tt.want, got, protocmp.Transform()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestIssuerGetsFewRequests checks that the discovery document is fetched once, that a new key is
// found, and that tokens with made-up key ids cause few requests.
func TestIssuerGetsFewRequests(t *testing.T) {
	key, next := newSigner(t, "a"), newSigner(t, "b")
	p := newIDP(t, key)
	g := newGate(t, &fakeRecords{}, Config{Issuers: []Issuer{{URL: p.URL, Audience: "holdfast-dc1"}}})
	try := func(by *signer) error {
		_, err := g.identify(context.Background(),
			&presented{source: "10.0.0.1", bearer: []string{by.sign(t, p.claims(nil))}})
		return err
	}
	for range 50 {
		if err := try(key); err != nil {
			t.Fatal(err)
		}
	}
	if n := p.asked.Load(); n != 2 {
		t.Errorf("got %d requests, want 2 for discovery and keys", n)
	}
	p.keys.Store(&[]*signer{key, next})
	if err := try(next); err != nil {
		t.Errorf("token of a new key: %v", err)
	}
	for range 100 {
		if err := try(newSigner(t, "c")); err == nil {
			t.Fatal("token of a made-up key: got no error")
		}
	}
	if n := p.asked.Load(); n > 5 {
		t.Errorf("made-up keys: got %d requests", n)
	}
	if err := try(key); err != nil {
		t.Errorf("valid token during invalid ones: %v", err)
	}
}

// TestIssuerHangs checks that an unresponsive issuer delays only its own tokens, for a
// limited time.
func TestIssuerHangs(t *testing.T) {
	key := newSigner(t, "a")
	p := newIDP(t, key)
	p.hang.Store(true)
	f := &fakeRecords{}
	g := newGate(t, f, Config{Issuers: []Issuer{{URL: p.URL, Audience: "holdfast-dc1"}}})
	secret := f.issue(&holdfastv1.Token{TokenId: "t1", Name: "x", Role: holdfastv1.Role_VIEWER})
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	waits := make(chan error)
	go func() {
		_, err := g.identify(ctx, &presented{bearer: []string{key.sign(t, p.claims(nil))}})
		waits <- err
	}()
	if _, err := g.identify(context.Background(), &presented{bearer: []string{secret}}); err != nil {
		t.Errorf("token of another issuer: %v", err)
	}
	if err := <-waits; reasonOf(err) != ReasonIssuerUnreachable {
		t.Errorf("got %v", err)
	}
}

func TestIssuerConfig(t *testing.T) {
	for _, tt := range []struct {
		cfg  Issuer
		want string
	}{
		{Issuer{URL: "https://sso.example/realms/dc", Audience: "x"}, ""},
		{Issuer{URL: "http://127.0.0.1:8080", Audience: "x"}, ""},
		{Issuer{URL: "http://sso.example", Audience: "x"}, "want https"},
		{Issuer{URL: "sso.example", Audience: "x"}, "want a URL"},
		{Issuer{URL: "https://sso.example"}, "set audience"},
		{Issuer{URL: "https://sso.example", Audience: "x", Roles: map[string]string{"a": "root"}}, "want viewer"},
		{Issuer{URL: "https://sso.example", Audience: "x", Roles: map[string]string{"a": "backup"}}, "want viewer"},
		{Issuer{URL: "https://sso.example/?realm=a", Audience: "x"}, "no user, query or fragment"},
		{Issuer{URL: "https://sso.example/" + strings.Repeat("x", 128), Audience: "x"}, "want at most 128 bytes"},
	} {
		_, err := newIssuers(Config{Issuers: []Issuer{tt.cfg}})
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%+v: got %v, want %q", tt.cfg, err, tt.want)
		}
	}
	for _, other := range []string{"https://sso.example", "https://SSO.example/"} {
		twice := []Issuer{{URL: "https://sso.example", Audience: "x"}, {URL: other, Audience: "x"}}
		if _, err := newIssuers(Config{Issuers: twice}); err == nil {
			t.Errorf("issuer %s twice: got no error", other)
		}
	}
}

// TestRealms: two issuers of one host name different users.
func TestRealms(t *testing.T) {
	var got []string
	for _, url := range []string{
		"https://sso.example.com/realms/a", "https://sso.example.com/realms/b", "https://sso.example.com:8443/realms/a",
		"https://SSO.example.com/",
	} {
		cfg := Issuer{URL: url, Audience: "x"}
		if err := cfg.check(); err != nil {
			t.Fatal(err)
		}
		id, err := newIssuer(cfg, nil, time.Now, slog.New(slog.DiscardHandler)).identity(map[string]any{"sub": "alice"})
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, id.GetPrincipal())
	}
	want := []string{
		"user:alice@sso.example.com/realms/a", "user:alice@sso.example.com/realms/b",
		"user:alice@sso.example.com:8443/realms/a", "user:alice@sso.example.com",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("principals (-want +got):\n%s", diff)
	}
}

// FuzzDiscovery checks that any discovery document leads to valid or refused tokens,
// never to a panic.
func FuzzDiscovery(f *testing.F) {
	key := newSigner(f, "a")
	keys, _ := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{key.jwk()}})
	f.Add(`{"issuer":"URL","jwks_uri":"URL/keys"}`, string(keys))
	f.Add(`{`, `{"keys":[{"kty":"EC"}]}`)
	f.Add(`{"issuer":"URL","jwks_uri":"URL/keys","id_token_signing_alg_values_supported":["none","HS256"]}`,
		`{"keys":[{"kty":"oct","k":"YQ","kid":"a"}]}`)
	var doc, jwks atomic.Pointer[string]
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body := *jwks.Load()
		if strings.HasSuffix(r.URL.Path, "openid-configuration") {
			body = strings.ReplaceAll(*doc.Load(), "URL", "http://"+r.Host)
		}
		_, _ = w.Write([]byte(body))
	}))
	f.Cleanup(srv.Close)
	good := key.sign(f, jwt.Claims{Issuer: srv.URL, Subject: "alice", Audience: jwt.Audience{"x"},
		Expiry: jwt.NewNumericDate(time.Now().Add(time.Hour))})
	forged := newSigner(f, "a").sign(f, jwt.Claims{Issuer: srv.URL, Subject: "alice", Audience: jwt.Audience{"x"},
		Expiry: jwt.NewNumericDate(time.Now().Add(time.Hour))})
	f.Fuzz(func(t *testing.T, d, k string) {
		doc.Store(&d)
		jwks.Store(&k)
		cfg := Issuer{URL: srv.URL, Audience: "x"}
		if err := cfg.check(); err != nil {
			t.Fatal(err)
		}
		i := newIssuer(cfg, http.DefaultTransport, time.Now, slog.New(slog.DiscardHandler))
		i.client.Timeout = time.Second
		for _, token := range []string{good, forged} {
			id, _, _, err := i.verify(context.Background(), token)
			if (id == nil) == (err == nil) || id != nil && (token == forged || id.GetRole() != 0) {
				t.Fatalf("got %v, %v", id, err)
			}
		}
	})
}

// The cause of an unreachable identity provider is logged once, and so is its end.
func TestIssuerFailuresAreLogged(t *testing.T) {
	var out bytes.Buffer
	i := newIssuer(Issuer{URL: "https://id.example"}, nil, time.Now, slog.New(slog.NewTextHandler(&out, nil)))
	refused, proxy := errors.New("dial tcp: connection refused"), errors.New("answered 502 Bad Gateway")
	for _, err := range []error{nil, refused, refused, proxy, proxy, nil, nil, refused} {
		i.note(err)
	}
	var got []string
	for line := range strings.Lines(out.String()) {
		for _, word := range []string{"connection refused", "502", "works again"} {
			if strings.Contains(line, word) {
				got = append(got, word)
			}
		}
	}
	if diff := cmp.Diff([]string{"connection refused", "502", "works again", "connection refused"}, got); diff != "" {
		t.Errorf("logged (-want +got):\n%s\n%s", diff, out.String())
	}
}
