package auth

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/time/rate"
	"google.golang.org/grpc/codes"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// Issuer is an OIDC issuer whose access tokens are taken.
type Issuer struct {
	// URL is the issuer, as its tokens and its discovery document spell it. https, but for
	// loopback.
	URL string `json:"issuer"`
	// Audience must be among those that a token is made for.
	Audience string `json:"audience"`
	// UserClaim names the user; default "sub".
	UserClaim string `json:"user_claim"`
	// RolesClaim has the caller's roles: a string with spaces, or a list. Dots lead into objects:
	// realm_access.roles. Default "roles".
	RolesClaim string `json:"roles_claim"`
	// Roles translates what is in RolesClaim: {"dc-ops": "operator@gpu"}. Without it "operator" and
	// "operator@gpu" mean themselves.
	Roles map[string]string `json:"roles"`
	// PoolsClaim has the pools that the caller is scoped to. When it is set and a token has none,
	// viewers and operators have no role.
	PoolsClaim string `json:"pools_claim"`
}

const (
	issuerTimeout  = 5 * time.Second  // of one request to an issuer
	issuerPause    = 10 * time.Second // between two tries to reach one, or to learn of new keys
	maxIssuerReply = 1 << 20          // bytes
)

// check reports what is wrong with the configuration of an issuer, and fills in defaults.
func (i *Issuer) check() error {
	u, err := url.Parse(i.URL)
	switch {
	case err != nil || u.Host == "":
		return fmt.Errorf("issuer %q: want a URL such as https://sso.example.com/realms/dc", i.URL)
	case u.Scheme != "https" && (u.Scheme != "http" || !loopback(u.Hostname())):
		return fmt.Errorf("issuer %q: want https: who can change its answers can be anybody", i.URL)
	case i.Audience == "":
		return fmt.Errorf("issuer %q: set audience: tokens that it makes for others must not open this cluster", i.URL)
	}
	for from, to := range i.Roles {
		if _, ok := parseGrant(to); !ok {
			return fmt.Errorf("issuer %q: role %q is %q: want viewer, operator, admin or service, and @pool after viewer or operator", i.URL, from, to)
		}
	}
	if i.UserClaim == "" {
		i.UserClaim = "sub"
	}
	if i.RolesClaim == "" {
		i.RolesClaim = "roles"
	}
	return nil
}

func loopback(host string) bool {
	return host == "localhost" || host == "127.0.0.1" || host == "::1"
}

// issuers knows those that are configured, by their URL.
type issuers struct{ by map[string]*issuer }

func newIssuers(cfgs []Issuer) (*issuers, error) {
	s := &issuers{by: map[string]*issuer{}}
	for _, cfg := range cfgs {
		if err := cfg.check(); err != nil {
			return nil, fmt.Errorf("read oidc_issuers: %w", err)
		}
		if s.by[cfg.URL] != nil {
			return nil, fmt.Errorf("read oidc_issuers: issuer %q is there twice", cfg.URL)
		}
		s.by[cfg.URL] = newIssuer(cfg)
	}
	return s, nil
}

// issuer is one of them. What it publishes is fetched when a token of it comes first.
type issuer struct {
	cfg    Issuer
	host   string
	client *http.Client

	mu       sync.Mutex
	verifier *oidc.IDTokenVerifier
	tried    time.Time
	failed   error
	running  chan struct{} // closed when a try has ended; nil while there is none
}

func newIssuer(cfg Issuer) *issuer {
	u, _ := url.Parse(cfg.URL) // checked
	return &issuer{cfg: cfg, host: u.Host, client: &http.Client{
		Timeout: issuerTimeout,
		// Redirects could lead anywhere: an issuer is where its URL says.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport:     &slowTransport{next: http.DefaultTransport, pace: rate.NewLimiter(rate.Every(issuerPause), 4)},
	}}
}

// slowTransport keeps tokens with made-up keys from making us ask the issuer all the time, and
// bounds what it answers.
type slowTransport struct {
	next http.RoundTripper
	pace *rate.Limiter
}

var errAskedJustNow = errors.New("it was asked a moment ago")

// RoundTrip implements http.RoundTripper.
func (t *slowTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	if !t.pace.Allow() {
		return nil, errAskedJustNow
	}
	resp, err := t.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	resp.Body = struct {
		io.Reader
		io.Closer
	}{io.LimitReader(resp.Body, maxIssuerReply), resp.Body}
	return resp, nil
}

// ready returns the verifier. Who comes first fetches it, others that come meanwhile wait for the
// same try: nobody else does.
func (i *issuer) ready(ctx context.Context) (*oidc.IDTokenVerifier, error) {
	i.mu.Lock()
	if i.verifier != nil || i.failed != nil && time.Since(i.tried) < issuerPause {
		defer i.mu.Unlock()
		return i.verifier, i.failed
	}
	running := i.running
	if running == nil {
		running = make(chan struct{})
		i.running = running
		go i.fetch(running) //nolint:contextcheck,gosec // it is for all who wait, not for this caller; issuerTimeout bounds it
	}
	i.mu.Unlock()
	select {
	case <-running:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.verifier, i.failed
}

func (i *issuer) fetch(done chan struct{}) {
	defer close(done)
	ctx, cancel := context.WithTimeout(context.Background(), issuerTimeout)
	defer cancel()
	p, err := oidc.NewProvider(oidc.ClientContext(ctx, i.client), i.cfg.URL)
	i.mu.Lock()
	defer i.mu.Unlock()
	i.running, i.tried, i.failed = nil, time.Now(), err
	if err == nil {
		i.verifier = p.Verifier(&oidc.Config{ClientID: i.cfg.Audience, SupportedSigningAlgs: asymmetric()})
	}
}

// asymmetric are the algorithms of signatures that are taken: none where a verifier could sign.
func asymmetric() []string {
	return []string{oidc.RS256, oidc.RS384, oidc.RS512, oidc.PS256, oidc.PS384, oidc.PS512, oidc.ES256, oidc.ES384, oidc.ES512, oidc.EdDSA}
}

// verify returns the identity in an access token.
func (i *issuer) verify(ctx context.Context, token string) (*holdfastv1.Identity, *Error) {
	ctx, cancel := context.WithTimeout(ctx, issuerTimeout)
	defer cancel()
	v, err := i.ready(ctx)
	if err != nil {
		return nil, i.unreachable(err)
	}
	t, err := v.Verify(ctx, token)
	var expired *oidc.TokenExpiredError
	switch {
	case errors.As(err, &expired):
		return nil, unauthenticated(ReasonTokenExpired, "the access token of %s has expired at %s: get a new one there", i.cfg.URL, stamp(expired.Expiry))
	case err != nil && (strings.Contains(err.Error(), "fetching keys") || ctx.Err() != nil):
		return nil, i.unreachable(errors.New("its keys cannot be read now")) // go-oidc wraps no cause here
	case err != nil:
		return nil, unauthenticated(ReasonTokenInvalid, "the access token of %s is not good: it wants a signature of the issuer, a time to live, and the audience %q", i.cfg.URL, i.cfg.Audience)
	}
	var claims map[string]any
	if err := t.Claims(&claims); err != nil {
		return nil, unauthenticated(ReasonTokenInvalid, "the access token of %s has claims that cannot be read", i.cfg.URL)
	}
	return i.identity(claims)
}

func (i *issuer) unreachable(err error) *Error {
	cause := "ask whoever runs it"
	if errors.Is(err, context.DeadlineExceeded) {
		cause = "it did not answer in time"
	}
	return &Error{Code: codes.Unavailable, Reason: ReasonIssuerUnreachable, Retry: time.Second,
		Message: fmt.Sprintf("issuer %s cannot be asked for its keys: %s; tokens of this cluster and client certificates work meanwhile", i.cfg.URL, cause)}
}

// identity makes an identity of claims. The issuer's host is part of the name: its alice is not
// ours.
func (i *issuer) identity(claims map[string]any) (*holdfastv1.Identity, *Error) {
	user, _ := claim(claims, i.cfg.UserClaim).(string)
	if !goodName(user) {
		return nil, unauthenticated(ReasonTokenInvalid, "the access token of %s names no user in its claim %q", i.cfg.URL, i.cfg.UserClaim)
	}
	var roles []string
	for _, r := range words(claims, i.cfg.RolesClaim) {
		if i.cfg.Roles == nil {
			roles = append(roles, r)
		} else if to, ok := i.cfg.Roles[r]; ok {
			roles = append(roles, to)
		}
	}
	g := highest(roles)
	if i.cfg.PoolsClaim != "" && (g.role == holdfastv1.Role_VIEWER || g.role == holdfastv1.Role_OPERATOR) {
		g = within(g, words(claims, i.cfg.PoolsClaim))
	}
	return &holdfastv1.Identity{Principal: "user:" + user + "@" + i.host, Role: g.role, Pools: g.pools, Method: MethodOIDC}, nil
}

// within narrows a grant to pools; to nothing if none is left.
func within(g grant, pools []string) grant {
	var both []string
	for _, p := range pools {
		if goodPool(p) && (len(g.pools) == 0 || slices.Contains(g.pools, p)) {
			both = append(both, p)
		}
	}
	if len(both) == 0 {
		return grant{}
	}
	slices.Sort(both)
	return grant{role: g.role, pools: slices.Compact(both)}
}

// claim finds a claim. A name with dots is looked for as it stands first, then from object to
// object.
func claim(claims map[string]any, name string) any {
	if v, ok := claims[name]; ok {
		return v
	}
	for inner := claims; ; {
		head, rest, more := strings.Cut(name, ".")
		if !more {
			return inner[name]
		}
		next, ok := inner[head].(map[string]any)
		if !ok {
			return nil
		}
		inner, name = next, rest
	}
}

// words reads a claim that is a string of words or a list of strings.
func words(claims map[string]any, name string) []string {
	switch v := claim(claims, name).(type) {
	case string:
		return strings.Fields(v)
	case []any:
		var all []string
		for _, e := range v {
			if s, ok := e.(string); ok {
				all = append(all, s)
			}
		}
		return all
	}
	return nil
}
