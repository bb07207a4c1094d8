package oidctest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

// Settings are the answers of a Provider.
type Settings struct {
	ClientID, ClientSecret string         // of the only client
	Audience               string         // of access tokens; empty: they are no JWTs
	Claims                 map[string]any // of both tokens
	IDClaims               map[string]any // of ID tokens, in place of others
	Lifetime               time.Duration  // of tokens; default an hour
	Deny                   string         // the error of all sign-ins: access_denied
	Nonce                  string         // in place of the requested one
	AtHash                 string         // at_hash of ID tokens; empty: they have none
	NoDevice               bool           // no device endpoint
	NoRefresh              bool           // refresh tokens are refused
	Down                   bool           // no request is answered
	Pending                int            // polls of a device before the person confirms
	Expired                bool           // codes are refused
}

// Provider is an OpenID provider on loopback.
type Provider struct {
	URL string

	server *httptest.Server
	key    *ecdsa.PrivateKey

	mu       sync.Mutex
	settings Settings
	codes    map[string]url.Values // authorization requests by code
	refresh  map[string]bool
	asked    map[string]int // requests by path
	last     url.Values     // of the token endpoint
}

// New starts a provider, which ends with the test.
func New(t testing.TB, s Settings) *Provider {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	p := &Provider{
		key: key, settings: s, codes: map[string]url.Values{}, refresh: map[string]bool{}, asked: map[string]int{},
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /.well-known/openid-configuration", p.discovery)
	mux.HandleFunc("GET /keys", p.keys)
	mux.HandleFunc("GET /authorize", p.authorize)
	mux.HandleFunc("POST /device", p.device)
	mux.HandleFunc("POST /token", p.token)
	p.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.mu.Lock()
		p.asked[r.URL.Path]++
		down := p.settings.Down
		p.mu.Unlock()
		if down {
			http.Error(w, "down", http.StatusServiceUnavailable)
			return
		}
		mux.ServeHTTP(w, r)
	}))
	p.URL = p.server.URL
	t.Cleanup(p.server.Close)
	return p
}

// Set changes the answers.
func (p *Provider) Set(change func(*Settings)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change(&p.settings)
}

// Asked returns the number of requests for a path.
func (p *Provider) Asked(path string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.asked[path]
}

// Last returns the last request to the token endpoint.
func (p *Provider) Last() url.Values {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.last
}

func (p *Provider) get() Settings {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.settings
}

func (p *Provider) discovery(w http.ResponseWriter, _ *http.Request) {
	d := map[string]any{
		"issuer": p.URL, "jwks_uri": p.URL + "/keys", "authorization_endpoint": p.URL + "/authorize",
		"token_endpoint": p.URL + "/token", "end_session_endpoint": p.URL + "/logout",
		"scopes_supported":                      []string{"openid", "profile", "offline_access"},
		"id_token_signing_alg_values_supported": []string{"ES256"},
	}
	if !p.get().NoDevice {
		d["device_authorization_endpoint"] = p.URL + "/device"
	}
	answer(w, http.StatusOK, d)
}

func (p *Provider) keys(w http.ResponseWriter, _ *http.Request) {
	answer(w, http.StatusOK, jose.JSONWebKeySet{Keys: []jose.JSONWebKey{
		{Key: p.key.Public(), KeyID: "k", Algorithm: string(jose.ES256), Use: "sig"},
	}})
}

// Sign returns a token with claims, changed by more. A nil value removes a claim.
func (p *Provider) Sign(audience string, more map[string]any) string {
	s := p.get()
	lifetime := s.Lifetime
	if lifetime == 0 {
		lifetime = time.Hour
	}
	claims := map[string]any{"iss": p.URL, "sub": "alice", "aud": audience, "iat": time.Now().Unix(),
		"exp": time.Now().Add(lifetime).Unix()}
	maps.Copy(claims, s.Claims)
	maps.Copy(claims, more)
	maps.DeleteFunc(claims, func(_ string, v any) bool { return v == nil })
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256,
		Key: jose.JSONWebKey{Key: p.key, KeyID: "k"}}, nil)
	if err != nil {
		panic(err) // the key is valid
	}
	token, err := jwt.Signed(signer).Claims(claims).Serialize()
	if err != nil {
		panic(err)
	}
	return token
}

func answer(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v)
}
