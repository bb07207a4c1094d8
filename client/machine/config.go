package machine

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/holdfast-metal/holdfast/client/internal/rest"
)

const (
	// DefaultProvider is the provider of a machine that names none.
	DefaultProvider = "generic"
	// DefaultInterval is the time between keepalives while no server has said anything else.
	DefaultInterval = time.Minute
	// minInterval bounds what a server can ask for.
	minInterval = time.Second
	// specsEvery is how often facts are read again that seldom change.
	specsEvery = 5 * time.Minute
)

// Config says which machine this is, and whom to tell.
type Config struct {
	// Servers are the base URLs of one or more peers, "https://peer-1:7401". Any peer takes any
	// call; the next one is asked when one fails.
	Servers []string
	// Token is the machine's token, or one of its pool. TokenFile names a file that holds it, which
	// is read again when a server has refused the token. Neither: none is sent, as to a cluster
	// that is insecure.
	Token     string
	TokenFile string
	// OwnTokenFile is where the machine keeps a token of its own: it makes one, and enrolls with
	// Token or TokenFile. Empty: it uses those for everything.
	OwnTokenFile string
	// MachineID is the id of this machine (see Identity), Pool the pool it belongs to. Required.
	MachineID string
	Pool      string
	// Provider of the pool. Empty: DefaultProvider.
	Provider string
	// AgentVersion is sent with each keepalive. It may be empty.
	AgentVersion string

	// Interval between keepalives. Zero: what the server asks for, or else a fifth of its TTL.
	// Never longer than a third of the TTL.
	Interval time.Duration
	// Timeout bounds each try at one server. Zero: 10 s.
	Timeout time.Duration
	// TLS is used for https. Nil: the roots of the system.
	TLS *tls.Config
	// AllowPlaintext lets the token go over http:// to an address that is not loopback.
	AllowPlaintext bool
	// Transport replaces the one that is made from TLS, in tests.
	Transport http.RoundTripper
	// Logger tells of registrations and of everything that fails. Nil: nothing is logged.
	Logger *slog.Logger
}

func (c Config) withDefaults() (Config, error) {
	switch {
	case c.MachineID == "":
		return c, errors.New("set up the agent: no machine id")
	case !validID(c.MachineID):
		return c, fmt.Errorf("set up the agent: machine id %q: use up to %d letters, digits, dots, dashes and underscores", c.MachineID, maxID)
	case c.Pool == "":
		return c, errors.New("set up the agent: no pool: name the one that the token was made for")
	case c.Token != "" && c.TokenFile != "":
		return c, errors.New("set up the agent: give a token or a token file, not both")
	}
	if c.Provider == "" {
		c.Provider = DefaultProvider
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c, nil
}

func (c Config) tokens() rest.Tokens {
	if c.TokenFile != "" {
		return rest.NewFileToken(c.TokenFile)
	}
	return rest.StaticToken(c.Token)
}
