package poolreg

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/holdfast-metal/holdfast/client/internal/rest"
)

// The defaults of POOLREG-18011 and 18020, and one of ours.
const (
	DefaultHeartbeatInterval = 10 * time.Second
	DefaultRetryBackoffBase  = time.Second
	DefaultRetryBackoffMax   = 30 * time.Second
	DefaultPlatformRefresh   = 5 * time.Minute
)

// Config says which pool this is, and whom to tell: an orchestrator, a platform, or both
// (POOLREG-18061).
type Config struct {
	Pool         Pool
	Orchestrator *Server
	Platform     *Platform

	// HeartbeatInterval is the time between heartbeats until the orchestrator asks for another one
	// (POOLREG-18022). Zero: DefaultHeartbeatInterval.
	HeartbeatInterval time.Duration
	// RetryBackoffBase and RetryBackoffMax bound the waits between tries: the base, twice that, and
	// so on, never more than the maximum; each wait is between half of that and all of it. Zero:
	// the defaults.
	RetryBackoffBase time.Duration
	RetryBackoffMax  time.Duration
	// Timeout bounds each try at one server. Zero: 10 s.
	Timeout time.Duration
	// TLS is used for https. Nil: the roots of the system.
	TLS *tls.Config
	// AllowPlaintext lets tokens go over http:// to addresses that are not loopback.
	AllowPlaintext bool
	// Transport replaces the one that is made from TLS, in tests.
	Transport http.RoundTripper
	// Registerer gets the metrics of POOLREG-18080. Nil: there are none.
	Registerer prometheus.Registerer
	// Logger tells of registrations and of everything that fails. Nil: nothing is logged.
	Logger *slog.Logger
}

// Pool is what stays the same of a pool.
type Pool struct {
	ID       string // required with an orchestrator
	Endpoint string // of the pool manager, "http://192.168.1.100:9200"
	NodeID   string
	Region   string
	Version  string // of the pool manager
}

// Server is a place to register at.
type Server struct {
	// URLs are base URLs. Any of them takes any call; the next one is asked when one fails.
	URLs []string
	// Token is sent as a bearer token. TokenFile names a file that holds it, which is read again
	// when the server has refused the token. Neither: none is sent.
	Token     string
	TokenFile string
}

func (s Server) tokens() rest.Tokens {
	if s.TokenFile != "" {
		return rest.NewFileToken(s.TokenFile)
	}
	return rest.StaticToken(s.Token)
}

func (c Config) withDefaults() (Config, error) {
	switch {
	case c.Orchestrator == nil && c.Platform == nil:
		return c, errors.New("neither an orchestrator nor a platform to register with")
	case c.Orchestrator != nil && c.Pool.ID == "":
		return c, errors.New("no pool id")
	case c.HeartbeatInterval < 0 || c.RetryBackoffBase < 0 || c.RetryBackoffMax < 0:
		return c, fmt.Errorf("a time is negative: heartbeat interval %s, backoff %s to %s", c.HeartbeatInterval, c.RetryBackoffBase, c.RetryBackoffMax)
	}
	if c.Pool.Endpoint != "" {
		if u, err := url.Parse(c.Pool.Endpoint); err != nil || u.Scheme == "" || u.Host == "" {
			return c, fmt.Errorf("endpoint %q is no URL: write it as http://192.168.1.100:9200", c.Pool.Endpoint)
		}
	}
	if c.HeartbeatInterval == 0 {
		c.HeartbeatInterval = DefaultHeartbeatInterval
	}
	if c.RetryBackoffBase == 0 {
		c.RetryBackoffBase = DefaultRetryBackoffBase
	}
	if c.RetryBackoffMax == 0 {
		c.RetryBackoffMax = max(DefaultRetryBackoffMax, c.RetryBackoffBase)
	}
	if c.RetryBackoffMax < c.RetryBackoffBase {
		return c, fmt.Errorf("the longest backoff (%s) is shorter than the first (%s)", c.RetryBackoffMax, c.RetryBackoffBase)
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c, nil
}

func (c Config) peers(s Server) (*rest.Peers, error) {
	return rest.New(rest.Config{
		URLs: s.URLs, Tokens: s.tokens(), AllowPlaintext: c.AllowPlaintext, TLS: c.TLS,
		Transport: c.Transport, Timeout: c.Timeout, UserAgent: "holdfast-poolreg/" + c.Pool.Version,
	})
}
