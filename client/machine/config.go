package machine

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"
)

const (
	// DefaultProvider is the provider of a machine that has none.
	DefaultProvider = "generic"
	// DefaultInterval is the time between keepalives unless a server sets another one.
	DefaultInterval = time.Minute
	// minInterval is the shortest interval that a server can request.
	minInterval = time.Second
	// specsEvery is the time between reads of the machine's specs.
	specsEvery = 5 * time.Minute
)

// Config configures an Agent.
type Config struct {
	// Servers are the base URLs of one or more peers, such as "https://peer-1:7401". Any
	// peer accepts any call. If one fails, the next one is tried.
	Servers []string
	// Token is the token of the machine or of its pool. TokenFile names a file with the
	// token, which is read again when a server has refused it. If neither is set, none is
	// sent, as to an insecure cluster.
	Token     string
	TokenFile string
	// OwnTokenFile is where the machine keeps its own token. It creates one, and enrolls it
	// with Token or TokenFile. If empty, it uses those for everything.
	OwnTokenFile string
	// MachineID is the id of this machine (see Identity) and Pool its pool. Both are
	// required.
	MachineID string
	Pool      string
	// Provider is the provider of the pool. Empty means DefaultProvider.
	Provider string
	// AgentVersion is sent with each keepalive. It may be empty.
	AgentVersion string

	// Interval is the time between keepalives. Zero means the one that the server requests,
	// or else a fifth of its TTL. It is never longer than a third of the TTL.
	Interval time.Duration
	// Timeout bounds each try at one server. Zero means 10 s.
	Timeout time.Duration
	// TLS is used for https. Nil means the system's roots.
	TLS *tls.Config
	// AllowPlaintext allows sending the token over http:// to a non-loopback address.
	AllowPlaintext bool
	// Transport replaces the transport made from TLS, for tests.
	Transport http.RoundTripper
	// Logger logs registrations and all failures. Nil disables logging.
	Logger *slog.Logger
}

func (c Config) withDefaults() (Config, error) {
	switch {
	case c.MachineID == "":
		return c, errors.New("set up the agent: no machine id")
	case !validID(c.MachineID):
		return c, fmt.Errorf("set up the agent: machine id %q: "+
			"use up to %d letters, digits, dots, dashes and underscores", c.MachineID, maxID)
	case c.Pool == "":
		return c, errors.New("set up the agent: no pool: set the pool that the token was created for")
	case c.Token != "" && c.TokenFile != "":
		return c, errors.New("set up the agent: set a token or a token file, not both")
	}
	c.Provider = cmp.Or(c.Provider, DefaultProvider)
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	return c, nil
}
