package auth

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/time/rate"
	"google.golang.org/grpc/codes"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// Issuer is an OIDC issuer whose access tokens are accepted.
type Issuer struct {
	// URL is the issuer as in its tokens and its discovery document. It must be https,
	// except on loopback.
	URL string `json:"issuer"`
	// Audience is the audience that a token must contain.
	Audience string `json:"audience"`
	// UserClaim is the claim with the user's name; default "sub".
	UserClaim string `json:"user_claim"`
	// RolesClaim is the claim with the caller's roles: a string with spaces, or a list.
	// Dots address nested objects: realm_access.roles. Default "roles".
	RolesClaim string `json:"roles_claim"`
	// Roles maps values of RolesClaim to grants: {"dc-ops": "operator@gpu"}. A value that is not
	// in it grants nothing, because an issuer's "admin" is one of its own applications.
	Roles map[string]string `json:"roles"`
	// PoolsClaim is the claim with the pools that the caller is scoped to. If it is set
	// and a token names no pool, viewers and operators have no role.
	PoolsClaim string `json:"pools_claim"`
	// MaxTokenHours is how long a token is accepted after it was issued, whatever its expiry;
	// default 24.
	MaxTokenHours int `json:"max_token_hours"`
	// People configures how people sign in with the issuer.
	People
}

const (
	issuerTimeout  = 5 * time.Second  // of one request to an issuer
	issuerPause    = 10 * time.Second // between two requests for its discovery document or new keys
	maxIssuerReply = 1 << 20          // bytes

	defaultTokenHours = 24
	maxTokenHours     = 365 * 24
)

// check validates the configuration of an issuer, and fills in defaults.
func (i *Issuer) check() error {
	u, err := url.Parse(i.URL)
	switch {
	case err != nil || u.Host == "":
		return fmt.Errorf("issuer %q: want a URL such as https://sso.example.com/realms/dc", i.URL)
	case u.Scheme != "https" && (u.Scheme != "http" || !Loopback(u.Hostname())):
		return fmt.Errorf("issuer %q: want https: over http an attacker can replace the issuer's keys", i.URL)
	case u.User != nil || u.RawQuery != "" || u.Fragment != "" || len(i.realm()) > maxName:
		return fmt.Errorf("issuer %q: want at most %d bytes after https://, and no user, query or fragment", i.URL, maxName)
	case i.Audience == "":
		return fmt.Errorf("issuer %q: set audience: tokens issued for other services must be refused", i.URL)
	}
	for from, to := range i.Roles {
		if g, ok := parseGrant(to); !ok || g.role == holdfastv1.Role_BACKUP {
			return fmt.Errorf(
				"issuer %q: role %q is %q: want viewer, operator, admin or service, and @pool after viewer or operator "+
					"(backup needs a client certificate)",
				i.URL, from, to)
		}
	}
	if i.MaxTokenHours < 0 || i.MaxTokenHours > maxTokenHours {
		return fmt.Errorf("issuer %q: max_token_hours %d: want 1 to %d, or 0 for %d", i.URL, i.MaxTokenHours, maxTokenHours,
			defaultTokenHours)
	}
	i.MaxTokenHours = cmp.Or(i.MaxTokenHours, defaultTokenHours)
	i.UserClaim = cmp.Or(i.UserClaim, "sub")
	i.RolesClaim = cmp.Or(i.RolesClaim, "roles")
	if err := i.People.check(u.Host); err != nil {
		return fmt.Errorf("issuer %q: %w", i.URL, err)
	}
	return nil
}

// realm returns the issuer in the principals of its users: its URL without the scheme. A host may
// have several issuers, which differ by their paths.
func (i *Issuer) realm() string {
	_, rest, _ := strings.Cut(i.URL, "://")
	host, path, _ := strings.Cut(rest, "/")
	return strings.TrimSuffix(strings.ToLower(host)+"/"+path, "/")
}

// issuers contains the configured issuers by URL, and in their order.
type issuers struct {
	by  map[string]*issuer
	all []*issuer
}

// newIssuers returns the issuers of a gate, and an error that joins one for each problem.
func newIssuers(c Config) (*issuers, error) {
	s := &issuers{by: map[string]*issuer{}}
	var errs []error
	for _, cfg := range c.Issuers {
		if err := cfg.check(); err != nil {
			errs = append(errs, fmt.Errorf("read oidc_issuers: %w", err))
			continue
		}
		if _, err := cfg.secret(); err != nil && !c.SkipFiles {
			errs = append(errs, fmt.Errorf("read oidc_issuers: issuer %q: %w", cfg.URL, err))
		}
		for _, other := range s.all {
			if other.realm == cfg.realm() {
				errs = append(errs, fmt.Errorf("read oidc_issuers: issuer %q is listed twice: its users would be those of %q",
					cfg.URL, other.cfg.URL))
			}
		}
		s.by[cfg.URL] = newIssuer(cfg, c.Transport, c.Now, c.Logger)
		s.all = append(s.all, s.by[cfg.URL])
	}
	return s, errors.Join(errs...)
}

// issuer is one configured issuer. Its discovery document is fetched with the first of
// its tokens.
type issuer struct {
	cfg       Issuer
	realm     string            // see Issuer.realm
	transport http.RoundTripper // to the issuer
	client    *http.Client
	now       func() time.Time
	log       *slog.Logger
	logged    atomic.Pointer[string] // the failure that was logged last; nil once it is over

	exchanges *rate.Limiter // of codes for tokens

	mu       sync.Mutex
	provider *oidc.Provider // nil until its discovery document was fetched
	verifier *oidc.IDTokenVerifier
	tried    time.Time
	failed   error
	running  chan struct{} // closed when the current fetch has ended; nil if there is none
}

func newIssuer(cfg Issuer, transport http.RoundTripper, now func() time.Time, log *slog.Logger) *issuer {
	i := &issuer{cfg: cfg, transport: transport, realm: cfg.realm(), now: now, log: log,
		exchanges: rate.NewLimiter(exchangesPerSecond, exchangesBurst)}
	i.client = &http.Client{
		Timeout: issuerTimeout,
		// Do not follow redirects: they could lead to any address.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport:     &slowTransport{next: transport, pace: rate.NewLimiter(rate.Every(issuerPause), 4), failed: i.note},
	}
	return i
}

// note logs a failure of the issuer once, until its cause changes or it is over. Callers only learn
// that the issuer cannot be reached, because its address and network are not theirs to see.
func (i *issuer) note(err error) {
	if err == nil {
		if i.logged.Load() != nil && i.logged.Swap(nil) != nil {
			i.log.Info("identity provider works again", "issuer", i.cfg.URL)
		}
		return
	}
	text := err.Error()
	if was := i.logged.Swap(&text); was == nil || *was != text {
		i.log.Warn("cannot use the identity provider, its tokens are refused", "issuer", i.cfg.URL, "error", err)
	}
}

// slowTransport limits the rate of requests to an issuer, which tokens with made-up key
// ids would cause otherwise, and the size of its responses.
type slowTransport struct {
	next   http.RoundTripper
	pace   *rate.Limiter
	failed func(error) // is called with the failure of each request
}

var errAskedJustNow = errors.New("request rate limit reached")

// RoundTrip implements http.RoundTripper.
func (t *slowTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	if !t.pace.Allow() {
		return nil, errAskedJustNow
	}
	resp, err := t.next.RoundTrip(r)
	if err != nil {
		if !errors.Is(err, context.Canceled) { // by the caller, not by the issuer
			t.failed(err)
		}
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		t.failed(fmt.Errorf("get %s: it answered %s", r.URL.Redacted(), resp.Status))
	}
	resp.Body = struct {
		io.Reader
		io.Closer
	}{io.LimitReader(resp.Body, maxIssuerReply), resp.Body}
	return resp, nil
}

// ready returns the verifier of an issuer. The first caller starts a fetch; callers that
// come meanwhile wait for the same fetch.
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
		go i.fetch(running) //nolint:contextcheck,gosec // it runs for all waiting callers; issuerTimeout bounds it
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
	switch {
	case err == nil:
		i.provider = p
		i.verifier = p.Verifier(&oidc.Config{ClientID: i.cfg.Audience, SupportedSigningAlgs: asymmetric(), Now: i.now})
	case i.logged.Load() == nil && !errors.Is(err, errAskedJustNow): // the transport logs its own failures
		i.note(err)
	}
}

// asymmetric returns the accepted signature algorithms. Symmetric ones are left out: with
// those a verifier could sign.
func asymmetric() []string {
	return []string{
		oidc.RS256, oidc.RS384, oidc.RS512, oidc.PS256, oidc.PS384, oidc.PS512,
		oidc.ES256, oidc.ES384, oidc.ES512, oidc.EdDSA,
	}
}

// verify checks an access token, and returns the identity in it, its end, and the id of its
// session.
func (i *issuer) verify(ctx context.Context, token string) (*holdfastv1.Identity, time.Time, string, *Error) {
	var none time.Time
	ctx, cancel := context.WithTimeout(ctx, issuerTimeout)
	defer cancel()
	v, err := i.ready(ctx)
	if err != nil {
		return nil, none, "", i.unreachable(err)
	}
	t, err := v.Verify(ctx, token)
	var expired *oidc.TokenExpiredError
	switch {
	case errors.As(err, &expired):
		return nil, none, "", unauthenticated(ReasonTokenExpired,
			"the access token of %s expired at %s: get a new one there", i.cfg.URL, stamp(expired.Expiry))
	case err != nil && strings.Contains(err.Error(), "before the nbf"): // go-oidc has no type for it
		return nil, none, "", unauthenticated(ReasonTokenEarly,
			"the access token of %s is not valid yet (nbf): is the issuer's clock ahead?", i.cfg.URL)
	case err != nil && (strings.Contains(err.Error(), "fetching keys") || ctx.Err() != nil):
		return nil, none, "", i.unreachable(errors.New("fetch its keys")) // go-oidc wraps no cause here
	case err != nil:
		return nil, none, "", unauthenticated(ReasonTokenInvalid,
			"invalid access token of %s: want a signature of the issuer, an expiry, and the audience %q",
			i.cfg.URL, i.cfg.Audience)
	}
	i.note(nil)
	ends, refusal := i.endOf(t)
	if refusal != nil {
		return nil, none, "", refusal
	}
	var claims map[string]any
	if err := t.Claims(&claims); err != nil {
		return nil, none, "", unauthenticated(ReasonTokenInvalid,
			"cannot parse the claims of the access token of %s", i.cfg.URL)
	}
	id, refusal := i.identity(claims)
	return id, ends, sessionID(t, claims, token), refusal
}

// issuedEarly is how far an issuer's clock may be ahead.
const issuedEarly = time.Minute

// endOf returns the end of a valid token: its own, or earlier if it lasts longer than a token may.
func (i *issuer) endOf(t *oidc.IDToken) (time.Time, *Error) {
	most, now := time.Duration(i.cfg.MaxTokenHours)*time.Hour, i.now()
	last := t.IssuedAt.Add(most)
	switch {
	case t.IssuedAt.After(now.Add(issuedEarly)):
		return last, unauthenticated(ReasonTokenEarly, "the access token of %s was issued at %s, which is not yet: is the "+
			"issuer's clock ahead?", i.cfg.URL, stamp(t.IssuedAt))
	case t.Expiry.Sub(now) <= most && t.IssuedAt.IsZero(), !t.Expiry.After(last):
		return t.Expiry, nil
	case t.IssuedAt.IsZero():
		return last, unauthenticated(ReasonTokenInvalid, "the access token of %s expires at %s and has no iat: want one, or "+
			"an end within %d h (max_token_hours)", i.cfg.URL, stamp(t.Expiry), i.cfg.MaxTokenHours)
	case !now.Before(last):
		return last, unauthenticated(ReasonTokenExpired, "the access token of %s was issued at %s, and is accepted for "+
			"%d h (max_token_hours): get a new one there", i.cfg.URL, stamp(t.IssuedAt), i.cfg.MaxTokenHours)
	}
	return last, nil
}

// sessionID returns the id of the session of a token: the same for all tokens of one sign-in, if
// the issuer names it (sid), else of this token alone.
func sessionID(t *oidc.IDToken, claims map[string]any, token string) string {
	named, _ := claims["sid"].(string)
	if named == "" {
		named, _ = claims["jti"].(string)
	}
	if named == "" {
		named = token
	}
	sum := sha256.Sum256([]byte(t.Issuer + "\n" + t.Subject + "\n" + named))
	return "oidc-" + hex.EncodeToString(sum[:12])
}

func (i *issuer) unreachable(err error) *Error {
	cause := "ask its administrator"
	if errors.Is(err, context.DeadlineExceeded) {
		cause = "it did not answer in time"
	}
	return &Error{
		Code: codes.Unavailable, Reason: ReasonIssuerUnreachable, Retry: time.Second,
		Message: fmt.Sprintf(
			"cannot fetch the keys of issuer %s: %s; tokens of this cluster and client certificates still work",
			i.cfg.URL, cause),
	}
}

// identity returns the identity in the claims of a token. The principal includes the issuer's host
// and path, so that users of different issuers with the same name are different principals.
func (i *issuer) identity(claims map[string]any) (*holdfastv1.Identity, *Error) {
	user, _ := claim(claims, i.cfg.UserClaim).(string)
	if !goodName(user) {
		return nil, unauthenticated(ReasonTokenInvalid,
			"the access token of %s has no valid user name in its claim %q", i.cfg.URL, i.cfg.UserClaim)
	}
	var roles []string
	for _, r := range words(claims, i.cfg.RolesClaim) {
		if to, ok := i.cfg.Roles[r]; ok {
			roles = append(roles, to)
		}
	}
	g := highest(roles)
	if i.cfg.PoolsClaim != "" && (g.role == holdfastv1.Role_VIEWER || g.role == holdfastv1.Role_OPERATOR) {
		g = within(g, words(claims, i.cfg.PoolsClaim))
	}
	return &holdfastv1.Identity{
		Principal: "user:" + user + "@" + i.realm,
		Role:      g.role,
		Pools:     g.pools,
		Method:    MethodOIDC,
	}, nil
}

// within restricts a grant to pools. If none is left it returns an empty grant.
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

// claim returns a claim by name. A name with dots is first tried as the name of one
// claim, then as a path through nested objects.
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

// words returns the strings of a claim: the words of a string, or the items of a list.
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
