package issuer

import (
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
	// DefaultTTL is how long an access token is good.
	DefaultTTL = 5 * time.Minute
	// DefaultRotation is how long a key signs.
	DefaultRotation = 30 * 24 * time.Hour

	// scope is what every access token is for, whatever was asked for.
	scope = "discovery"
	// skew is what the clocks of peers may differ by.
	skew = 30 * time.Second
)

// Clients says who a client is (*auth.Gate).
type Clients interface {
	Client(ctx context.Context, id, secret, addr, method string) (*holdfastv1.Identity, error)
}

// Config says under which name the issuer is known.
type Config struct {
	// URL is the issuer's, as clients reach it: https://holdfast.example:7401/oidc. Empty: made
	// from each request's Host, which serves those who always use one name.
	URL string
	// TTL is how long access tokens are good; default DefaultTTL.
	TTL time.Duration
	// Logger defaults to none.
	Logger *slog.Logger
}

// Issuer answers the clients of one peer.
type Issuer struct {
	cfg     Config
	url     *url.URL // of Config; nil without
	state   secrets.State
	keys    *secrets.Keyring
	clients Clients
	log     *slog.Logger
	now     func() time.Time

	mu     sync.Mutex
	keyID  string // of signer
	signer jose.Signer
}

// New returns an issuer. It fails when its URL cannot be one.
func New(cfg Config, state secrets.State, keys *secrets.Keyring, clients Clients) (*Issuer, error) {
	if cfg.TTL <= 0 {
		cfg.TTL = DefaultTTL
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	i := &Issuer{cfg: cfg, state: state, keys: keys, clients: clients, log: cfg.Logger, now: time.Now}
	if cfg.URL == "" {
		return i, nil
	}
	u, err := url.Parse(strings.TrimSuffix(cfg.URL, "/"))
	if err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" || (u.Scheme != "https" && u.Scheme != "http") {
		return nil, fmt.Errorf("read the issuer's URL %q: want one like https://holdfast.example:7401/oidc, with nothing after the path", cfg.URL)
	}
	i.url = u
	return i, nil
}

// claims are those of an access token (RFC 9068 §2.2).
type claims struct {
	auth.AccessClaims
	ClientID string `json:"client_id"`
	Scope    string `json:"scope"`
}

// unavailable is that the issuer cannot sign now, and why.
type unavailable struct{ why string }

func (u unavailable) Error() string { return u.why }

// ready reports why tokens cannot be issued, or gives what signs them.
func (i *Issuer) ready() (jose.Signer, error) {
	if _, ok := i.keys.Primary(); !ok {
		return nil, unavailable{"the built-in issuer is off: " + secrets.ErrNoKey.Error()}
	}
	k := signing(i.state.View().SigningKeys(), i.now())
	if k == nil {
		return nil, unavailable{"the built-in issuer has no signing key yet: the leader makes one when it has a secrets key; try again in a moment"}
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.keyID == k.GetKeyId() {
		return i.signer, nil
	}
	signer, err := openSigner(i.keys, k)
	if err != nil {
		i.log.Error("the signing key of the built-in issuer cannot be opened on this peer", "error", err)
		if unknown := new(secrets.UnknownKeyError); errors.As(err, &unknown) {
			return nil, unavailable{"this peer cannot sign: the signing key is sealed under secrets key " + unknown.ID + ", which it does not have; try another peer"}
		}
		return nil, unavailable{"this peer cannot sign: its secrets key does not open the signing key; try another peer"}
	}
	i.keyID, i.signer = k.GetKeyId(), signer
	return signer, nil
}

// issue makes an access token for a client, and says how long it is good.
func (i *Issuer) issue(signer jose.Signer, iss string, who *holdfastv1.Identity) (string, time.Duration, error) {
	now := i.now()
	id := make([]byte, 16)
	_, _ = rand.Read(id) // never fails: see crypto/rand
	c := claims{
		AccessClaims: auth.AccessClaims{TokenID: who.GetTokenId(), Claims: jwt.Claims{
			Issuer: iss, Subject: who.GetPrincipal(), Audience: jwt.Audience{auth.AccessAudience}, ID: base64.RawURLEncoding.EncodeToString(id),
			IssuedAt: jwt.NewNumericDate(now.Add(-skew)), // a peer whose clock is behind takes it too
			Expiry:   jwt.NewNumericDate(now.Add(i.cfg.TTL)),
		}},
		ClientID: who.GetTokenId(), Scope: scope,
	}
	raw, err := jwt.Signed(signer).Claims(c).Serialize()
	if err != nil {
		return "", 0, fmt.Errorf("sign access token: %w", err)
	}
	return raw, i.cfg.TTL, nil
}
