package discovery

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/holdfast-metal/holdfast/client/internal/rest"
)

// The defaults of the document's tables.
const (
	DefaultMaxRetries = 3
	DefaultRetryWait  = time.Second
	DefaultPeriod     = 5 * time.Second
)

// Config says whom to register with, and how. The names that the document has for a parameter stand
// in brackets.
type Config struct {
	// BaseURLs are the routers, or the peers of one Holdfast cluster, "https://peer-1:7401"
	// [baseUrl]. Any of them takes any call; the next one is asked when one fails.
	BaseURLs []string
	// ClientID and Secret are those of OAuth2 [clientId, secret]. Without an id no token is sent.
	ClientID string
	Secret   string
	// TokenEndpoints are where the token comes from [tokenEndpoint]: an OIDC issuer, whose
	// /.well-known/openid-configuration names the token endpoint, or else the token endpoint
	// itself. The next one is asked when one fails.
	TokenEndpoints []string

	// MaxRetries is how often a failed registration is tried again at once [maxRetries]. After that
	// it is tried once a Period or more seldom, without end. Zero: DefaultMaxRetries. Negative:
	// none.
	MaxRetries int
	// RetryWait is the time between these tries [waitSeconds]. Zero: DefaultRetryWait.
	RetryWait time.Duration
	// DataDir is where the file lies that keeps the service's id [dataDir]. It is made when it is
	// missing. Empty: the id is not kept.
	DataDir string
	// InitialDelay is the time before the first registration [initialDelay].
	InitialDelay time.Duration
	// Period is the time between pings [period]. Zero: DefaultPeriod.
	Period time.Duration

	// Callbacks are told of what happens, in their order.
	Callbacks []Callback
	// Timeout bounds each try at one server. Zero: 10 s.
	Timeout time.Duration
	// TLS is used for https. Nil: the roots of the system.
	TLS *tls.Config
	// AllowPlaintext lets tokens and the secret go over http:// to addresses that are not loopback.
	AllowPlaintext bool
	// Transport replaces the one that is made from TLS, in tests.
	Transport http.RoundTripper
	// Logger tells of registrations and of everything that fails. Nil: nothing is logged.
	Logger *slog.Logger
}

func (c Config) withDefaults() (Config, error) {
	switch {
	case c.ClientID != "" && len(c.TokenEndpoints) == 0:
		return c, errors.New("a client id, but no token endpoint to use it at")
	case c.ClientID == "" && len(c.TokenEndpoints) > 0:
		return c, errors.New("a token endpoint, but no client id to use there")
	case c.Period < 0 || c.RetryWait < 0 || c.InitialDelay < 0:
		return c, fmt.Errorf("a time is negative: period %s, retry wait %s, initial delay %s", c.Period, c.RetryWait, c.InitialDelay)
	}
	switch {
	case c.MaxRetries == 0:
		c.MaxRetries = DefaultMaxRetries
	case c.MaxRetries < 0:
		c.MaxRetries = 0
	}
	if c.RetryWait == 0 {
		c.RetryWait = DefaultRetryWait
	}
	if c.Period == 0 {
		c.Period = DefaultPeriod
	}
	if c.Timeout <= 0 {
		c.Timeout = rest.DefaultTimeout
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c, nil
}
