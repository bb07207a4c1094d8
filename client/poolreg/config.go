package poolreg

import (
	"cmp"
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

// Defaults of POOLREG-18011 and 18020. DefaultPlatformRefresh is Holdfast's own.
const (
	DefaultHeartbeatInterval = 10 * time.Second
	DefaultRetryBackoffBase  = time.Second
	DefaultRetryBackoffMax   = 30 * time.Second
	DefaultPlatformRefresh   = 5 * time.Minute
)

// Config configures a Client: the pool, and where to register it. That is an orchestrator,
// a platform, or both (POOLREG-18061).
type Config struct {
	Pool         Pool
	Orchestrator *Server
	Platform     *Platform

	// HeartbeatInterval is the time between heartbeats until the orchestrator requests
	// another one (POOLREG-18022). Zero means DefaultHeartbeatInterval.
	HeartbeatInterval time.Duration
	// RetryBackoffBase and RetryBackoffMax bound the wait between tries, which doubles from
	// the base up to the maximum. Each wait is random between half of that and all of it.
	// Zero means the defaults.
	RetryBackoffBase time.Duration
	RetryBackoffMax  time.Duration
	// Timeout bounds each try at one server. Zero means 10 s.
	Timeout time.Duration
	// TLS is used for https. Nil means the system's roots.
	TLS *tls.Config
	// AllowPlaintext allows sending tokens over http:// to non-loopback addresses.
	AllowPlaintext bool
	// Transport replaces the transport made from TLS, for tests.
	Transport http.RoundTripper
	// Registerer receives the metrics of POOLREG-18080. If nil, none are registered.
	Registerer prometheus.Registerer
	// Logger logs registrations and all failures. Nil disables logging.
	Logger *slog.Logger
}

// Pool is the constant part of a pool.
type Pool struct {
	ID       string // required with an orchestrator
	Endpoint string // of the pool manager, "http://192.168.1.100:9200"
	NodeID   string
	Region   string
	Version  string // of the pool manager
}

// Server is the address of an orchestrator or a platform.
type Server struct {
	// URLs are base URLs. Any of them accepts any call. If one fails, the next one is
	// tried.
	URLs []string
	// Token is sent as a bearer token. TokenFile names a file with the token, which is read
	// again when the server has refused it. If neither is set, none is sent.
	Token     string
	TokenFile string
}

func (c Config) withDefaults() (Config, error) {
	switch {
	case c.Orchestrator == nil && c.Platform == nil:
		return c, errors.New("no orchestrator and no platform to register with")
	case c.Orchestrator != nil && c.Pool.ID == "":
		return c, errors.New("no pool id")
	case c.HeartbeatInterval < 0 || c.RetryBackoffBase < 0 || c.RetryBackoffMax < 0:
		return c, fmt.Errorf("a time is negative: heartbeat interval %s, backoff %s to %s",
			c.HeartbeatInterval, c.RetryBackoffBase, c.RetryBackoffMax)
	}
	if c.Pool.Endpoint != "" {
		if u, err := url.Parse(c.Pool.Endpoint); err != nil || u.Scheme == "" || u.Host == "" {
			return c, fmt.Errorf("endpoint %q is not a URL: use the form http://192.168.1.100:9200", c.Pool.Endpoint)
		}
	}
	c.HeartbeatInterval = cmp.Or(c.HeartbeatInterval, DefaultHeartbeatInterval)
	c.RetryBackoffBase = cmp.Or(c.RetryBackoffBase, DefaultRetryBackoffBase)
	if c.RetryBackoffMax == 0 {
		c.RetryBackoffMax = max(DefaultRetryBackoffMax, c.RetryBackoffBase)
	}
	if c.RetryBackoffMax < c.RetryBackoffBase {
		return c, fmt.Errorf("the longest backoff (%s) is shorter than the first (%s)",
			c.RetryBackoffMax, c.RetryBackoffBase)
	}
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	return c, nil
}

func (c Config) peers(s Server) (*rest.Peers, error) {
	return rest.New(rest.Config{
		URLs: s.URLs, Tokens: rest.NewTokens(s.TokenFile, s.Token), AllowPlaintext: c.AllowPlaintext, TLS: c.TLS,
		Transport: c.Transport, Timeout: c.Timeout, UserAgent: "holdfast-poolreg/" + c.Pool.Version,
	})
}
