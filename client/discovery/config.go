package discovery

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/holdfast-metal/holdfast/client/internal/rest"
)

// Defaults of specification 003.
const (
	DefaultMaxRetries = 3
	DefaultRetryWait  = time.Second
	DefaultPeriod     = 5 * time.Second
)

// Config configures a Manager. Brackets hold the specification's name of a parameter.
type Config struct {
	// BaseURLs are the routers, or the peers of one Holdfast cluster, such as
	// "https://peer-1:7401" [baseUrl]. Any of them accepts any call. If one fails, the next
	// one is tried.
	BaseURLs []string
	// ClientID and Secret are the OAuth2 credentials [clientId, secret]. If ClientID is
	// empty, no token is sent.
	ClientID string
	Secret   string
	// TokenEndpoints issue the token [tokenEndpoint]. Each one is an OIDC issuer, whose
	// /.well-known/openid-configuration names the token endpoint, or the token endpoint
	// itself. If one fails, the next one is tried.
	TokenEndpoints []string

	// MaxRetries is the number of immediate retries of a failed registration [maxRetries].
	// After these it is retried forever, once a Period or less often. Zero means
	// DefaultMaxRetries, negative means none.
	MaxRetries int
	// RetryWait is the time between these retries [waitSeconds]. Zero means
	// DefaultRetryWait.
	RetryWait time.Duration
	// DataDir is the directory of the file that keeps the service's id [dataDir]. It is
	// created if missing. If empty, the id is not kept.
	DataDir string
	// InitialDelay is the time before the first registration [initialDelay].
	InitialDelay time.Duration
	// Period is the time between pings [period]. Zero means DefaultPeriod.
	Period time.Duration

	// Callbacks receive the events of the registration, in this order.
	Callbacks []Callback
	// Timeout bounds each try at one server. Zero means 10 s.
	Timeout time.Duration
	// TLS is used for https. Nil means the system's roots.
	TLS *tls.Config
	// AllowPlaintext allows sending tokens and the secret over http:// to non-loopback
	// addresses.
	AllowPlaintext bool
	// Transport replaces the transport made from TLS, for tests.
	Transport http.RoundTripper
	// Logger logs registrations and all failures. Nil disables logging.
	Logger *slog.Logger
}

func (c Config) withDefaults() (Config, error) {
	switch {
	case c.ClientID != "" && len(c.TokenEndpoints) == 0:
		return c, errors.New("client id without a token endpoint")
	case c.ClientID == "" && len(c.TokenEndpoints) > 0:
		return c, errors.New("token endpoint without a client id")
	case c.Period < 0 || c.RetryWait < 0 || c.InitialDelay < 0:
		return c, fmt.Errorf("a time is negative: period %s, retry wait %s, initial delay %s",
			c.Period, c.RetryWait, c.InitialDelay)
	}
	switch {
	case c.MaxRetries == 0:
		c.MaxRetries = DefaultMaxRetries
	case c.MaxRetries < 0:
		c.MaxRetries = 0
	}
	c.RetryWait = cmp.Or(c.RetryWait, DefaultRetryWait)
	c.Period = cmp.Or(c.Period, DefaultPeriod)
	if c.Timeout <= 0 {
		c.Timeout = rest.DefaultTimeout
	}
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	return c, nil
}
