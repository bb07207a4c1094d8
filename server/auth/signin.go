package auth

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/holdfast-metal/holdfast/cluster/keyfile"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// CallbackPath is the path of the dashboard to which an issuer returns people.
const CallbackPath = "/ui/signin/callback"

// The limits of requests to an issuer's token endpoint.
const (
	exchangesPerSecond = 20
	exchangesBurst     = 100
)

// People configures how people sign in with an issuer. The zero value lets nobody sign in.
type People struct {
	// DisplayName is the issuer's name on the sign-in page; default its host.
	DisplayName string `json:"display_name"`
	// ClientID is this cluster's client at the issuer. Empty: no sign-in at the dashboard.
	ClientID string `json:"client_id"`
	// ClientSecretFile is the file with the client's secret, or credential:NAME of systemd. It
	// is read for each sign-in. Empty: a public client.
	ClientSecretFile string `json:"client_secret_file"`
	// CLIClientID is the public client for `holdfast login`; default ClientID if that has no
	// secret.
	CLIClientID string `json:"cli_client_id"`
	// Scopes are the requested scopes; default openid and profile.
	Scopes []string `json:"scopes"`
	// RedirectURL is the address of CallbackPath as browsers reach it; default the address of
	// the request.
	RedirectURL string `json:"redirect_url"`
}

// check validates the configuration, and fills in defaults.
func (p *People) check(host string) error {
	if p.ClientID == "" && (p.ClientSecretFile != "" || p.RedirectURL != "") {
		return errors.New("set client_id: client_secret_file and redirect_url belong to it")
	}
	if p.ClientSecretFile == "" {
		p.CLIClientID = cmp.Or(p.CLIClientID, p.ClientID)
	}
	if len(p.Scopes) == 0 {
		p.Scopes = []string{oidc.ScopeOpenID, "profile"}
	}
	if !slices.Contains(p.Scopes, oidc.ScopeOpenID) {
		return fmt.Errorf("scopes %q: add openid: without it the issuer does not identify people", p.Scopes)
	}
	p.DisplayName = cmp.Or(p.DisplayName, host)
	if !goodName(p.DisplayName) {
		return fmt.Errorf("display_name %q: want at most %d printable bytes", clip(p.DisplayName), maxName)
	}
	return p.checkRedirect()
}

// checkRedirect returns an error for a URL to which the issuer cannot send people back.
func (p *People) checkRedirect() error {
	if p.RedirectURL == "" {
		return nil
	}
	u, err := url.Parse(p.RedirectURL)
	if err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" || u.Path != CallbackPath ||
		u.Scheme != "https" && (u.Scheme != "http" || !Loopback(u.Hostname())) {
		return fmt.Errorf("redirect_url %q: want one such as https://holdfast.example%s", p.RedirectURL, CallbackPath)
	}
	return nil
}

// secret returns the secret of the client, or an empty one for a public client.
func (p *People) secret() (string, error) {
	if p.ClientSecretFile == "" {
		return "", nil
	}
	b, err := keyfile.ReadPrivate(p.ClientSecretFile)
	if err != nil {
		return "", fmt.Errorf("read client_secret_file: %w", err)
	}
	secret := strings.TrimSpace(string(b))
	if secret == "" {
		return "", fmt.Errorf("read client_secret_file %s: it is empty", p.ClientSecretFile)
	}
	return secret, nil
}

// SignIn is an issuer with which people sign in. Tokens are verified as those of any call.
type SignIn struct {
	g *Gate
	i *issuer
}

// SignIns returns the issuers with which people sign in, in the order of the configuration.
func (g *Gate) SignIns() []*SignIn {
	var all []*SignIn
	for _, i := range g.oidc.all {
		if i.cfg.ClientID != "" || i.cfg.CLIClientID != "" {
			all = append(all, &SignIn{g: g, i: i})
		}
	}
	return all
}

// SignIns returns the issuers of the gate with which people sign in.
func (m *Mux) SignIns() []*SignIn { return m.g.SignIns() }

// Config returns the configuration of the issuer.
func (s *SignIn) Config() Issuer { return s.i.cfg }

// Secret returns the secret of the dashboard's client, or an empty one for a public client.
func (s *SignIn) Secret() (string, *Error) {
	secret, err := s.i.cfg.secret()
	if err != nil {
		s.i.log.Warn("cannot read the client secret, nobody can sign in with the identity provider",
			"issuer", s.i.cfg.URL, "error", err)
		return "", s.i.unreachable(errors.New("read the client secret"))
	}
	return secret, nil
}

// Provider returns the endpoints and keys of the issuer. The error names no address.
func (s *SignIn) Provider(ctx context.Context) (*oidc.Provider, *Error) {
	ctx, cancel := context.WithTimeout(ctx, issuerTimeout)
	defer cancel()
	if _, err := s.i.ready(ctx); err != nil {
		return nil, s.i.unreachable(err)
	}
	s.i.mu.Lock()
	defer s.i.mu.Unlock()
	return s.i.provider, nil
}

// Client returns the HTTP client for the token endpoint, or an error if there were too many
// requests. One address cannot use up the limit of all: its failures have a lower one.
func (s *SignIn) Client(r *http.Request) (*http.Client, *Error) {
	if s.g.limits.exhausted(sourceOf(r.RemoteAddr)) || !s.i.exchanges.Allow() {
		return nil, tooMany(exchangesPerSecond, "too many people sign in with %s at once", s.i.cfg.DisplayName)
	}
	return &http.Client{Timeout: issuerTimeout, CheckRedirect: s.i.client.CheckRedirect, Transport: s.i.transport}, nil
}

// Unreachable logs a failed request to the issuer, and returns the error for the person.
func (s *SignIn) Unreachable(err error) *Error {
	s.i.note(err)
	return s.i.unreachable(err)
}

// IDToken verifies the token that identifies a person to the client.
func (s *SignIn) IDToken(ctx context.Context, p *oidc.Provider, raw string) (*oidc.IDToken, *Error) {
	ctx, cancel := context.WithTimeout(ctx, issuerTimeout)
	defer cancel()
	v := p.Verifier(&oidc.Config{ClientID: s.i.cfg.ClientID, SupportedSigningAlgs: asymmetric(), Now: s.g.now})
	t, err := v.Verify(ctx, raw)
	switch {
	case err != nil && (strings.Contains(err.Error(), "fetching keys") || ctx.Err() != nil):
		return nil, s.i.unreachable(errors.New("fetch its keys"))
	case err != nil:
		return nil, unauthenticated(ReasonTokenInvalid,
			"invalid ID token of %s: want a signature of the issuer, an expiry, and the audience %q",
			s.i.cfg.URL, s.i.cfg.ClientID)
	}
	return t, nil
}

// Identify verifies a token as that of a call. It returns the identity and the token's expiry.
func (s *SignIn) Identify(ctx context.Context, token string) (*holdfastv1.Identity, time.Time, *Error) {
	if len(token) > maxJWT {
		return nil, time.Time{}, unauthenticated(ReasonBadCredentials,
			"the token of %s has %d bytes: want at most %d", s.i.cfg.URL, len(token), maxJWT)
	}
	id, ends, _, err := s.i.verify(ctx, token)
	return id, ends, err
}

// SameSubject reports whether an access token is for the person whom an ID token identifies. One
// that names nobody must be bound by at_hash, which the caller has verified if there is one. It
// verifies no signature.
func (s *SignIn) SameSubject(id *oidc.IDToken, token string) bool {
	var claims jwt.Claims
	return !s.ForUs(token) || decode(strings.Split(token, ".")[1], &claims) &&
		(claims.Subject == "" && id.AccessTokenHash != "" || claims.Subject == id.Subject)
}

// ForUs reports whether a token is a JWT that names the configured audience. It verifies
// nothing.
func (s *SignIn) ForUs(token string) bool {
	var claims jwt.Claims
	return isJWT(token) && decode(strings.Split(token, ".")[1], &claims) && claims.Audience.Contains(s.i.cfg.Audience)
}

// Issued reports whether a token names this issuer. It verifies nothing.
func (s *SignIn) Issued(token string) bool {
	h, ok := peek(token)
	return ok && h.Issuer == s.i.cfg.URL
}

// Failed counts and records a failed sign-in, and returns the error for the person.
func (s *SignIn) Failed(r *http.Request, err *Error) *Error {
	p := &presented{source: sourceOf(r.RemoteAddr), method: r.Method + " " + r.URL.Path}
	if e, ok := errors.AsType[*Error](s.g.authFailed(p, err)); ok {
		return e
	}
	return err
}
