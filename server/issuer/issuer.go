package issuer

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/holdfast-metal/holdfast/internal/secrets"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/server/auth"
)

const (
	// DefaultTTL is the lifetime of an access token.
	DefaultTTL = 5 * time.Minute
	// DefaultRotation is how long a key is used for signing.
	DefaultRotation = 30 * 24 * time.Hour

	// scope is the scope of every access token, regardless of the request.
	scope = "discovery"
	// skew is the tolerated difference between the clocks of peers.
	skew = 30 * time.Second
)

// Clients authenticates clients (*auth.Gate).
type Clients interface {
	Client(ctx context.Context, id, secret, addr, method string) (*holdfastv1.Identity, error)
}

// Config configures an Issuer.
type Config struct {
	// URL is the issuer's URL as clients reach it: https://holdfast.example:7401/oidc. If
	// empty, it is derived from each request's Host; that works for clients that always use
	// one name.
	URL string
	// TTL is the lifetime of access tokens; default DefaultTTL.
	TTL time.Duration
	// Now returns the time by which tokens end; default time.Now.
	Now func() time.Time
	// Logger discards logs if nil.
	Logger *slog.Logger
}

// Issuer issues access tokens on one peer.
type Issuer struct {
	cfg     Config
	url     *url.URL // parsed Config.URL; nil if empty
	state   secrets.State
	keys    *secrets.Keyring
	clients Clients
	log     *slog.Logger
	now     func() time.Time

	mu     sync.Mutex
	keyID  string // of signer
	signer jose.Signer
}

// New returns an issuer. It fails if the URL is invalid.
func New(cfg Config, state secrets.State, keys *secrets.Keyring, clients Clients) (*Issuer, error) {
	if cfg.TTL <= 0 {
		cfg.TTL = DefaultTTL
	}
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	i := &Issuer{cfg: cfg, state: state, keys: keys, clients: clients, log: cfg.Logger, now: cfg.Now}
	if i.now == nil {
		i.now = time.Now
	}
	if cfg.URL == "" {
		return i, nil
	}
	u, err := url.Parse(strings.TrimSuffix(cfg.URL, "/"))
	plain := err == nil && u.Host != "" && u.User == nil && u.RawQuery == "" && u.Fragment == ""
	if !plain || u.Scheme != "https" && u.Scheme != "http" {
		return nil, fmt.Errorf("read the issuer's URL %q: want one such as https://holdfast.example:7401/oidc, "+
			"without query or fragment", cfg.URL)
	}
	i.url = u
	return i, nil
}

// claims are the claims of an access token (RFC 9068 §2.2).
type claims struct {
	auth.AccessClaims
	ClientID string `json:"client_id"`
	Scope    string `json:"scope"`
}

// unavailable is the reason why the issuer cannot sign at the moment.
type unavailable string

func (u unavailable) Error() string { return string(u) }

// ready returns the current signer, or an unavailable error.
func (i *Issuer) ready() (jose.Signer, error) {
	if _, ok := i.keys.Primary(); !ok {
		return nil, unavailable("the built-in issuer is off: " + secrets.ErrNoKey.Error())
	}
	k := signing(i.state.View().SigningKeys(), i.now())
	if k == nil {
		return nil, unavailable("the built-in issuer has no signing key yet: " +
			"the leader creates one once it has a secrets key; retry in a moment")
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.keyID == k.GetKeyId() {
		return i.signer, nil
	}
	signer, err := openSigner(i.keys, k)
	if err != nil {
		i.log.Error("cannot decrypt the built-in issuer's signing key", "error", err)
		if unknown := new(secrets.UnknownKeyError); errors.As(err, &unknown) {
			return nil, unavailable("this peer cannot sign: the signing key is sealed under secrets key " + unknown.ID +
				", which it does not have; use another peer")
		}
		return nil, unavailable("this peer cannot sign: its secrets key does not decrypt the signing key; use another peer")
	}
	i.keyID, i.signer = k.GetKeyId(), signer
	return signer, nil
}

// issue returns an access token for a client.
func (i *Issuer) issue(signer jose.Signer, iss string, who *holdfastv1.Identity) (string, error) {
	now := i.now()
	id := make([]byte, 16)
	_, _ = rand.Read(id) // never fails: see crypto/rand
	c := claims{
		AccessClaims: auth.AccessClaims{TokenID: who.GetTokenId(), Claims: jwt.Claims{
			Issuer:   iss,
			Subject:  who.GetPrincipal(),
			Audience: jwt.Audience{auth.AccessAudience},
			ID:       base64.RawURLEncoding.EncodeToString(id),
			IssuedAt: jwt.NewNumericDate(now.Add(-skew)), // for peers whose clock is behind
			Expiry:   jwt.NewNumericDate(now.Add(i.cfg.TTL)),
		}},
		ClientID: who.GetTokenId(), Scope: scope,
	}
	raw, err := jwt.Signed(signer).Claims(c).Serialize()
	if err != nil {
		return "", fmt.Errorf("sign access token: %w", err)
	}
	return raw, nil
}
