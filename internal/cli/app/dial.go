package app

import (
	"cmp"
	"context"
	"crypto/tls"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfast-metal/holdfast/client"
	"github.com/holdfast-metal/holdfast/internal/cli/login"
	"github.com/holdfast-metal/holdfast/internal/cli/profile"
)

const defaultAddr = "127.0.0.1:" + client.DefaultPort

// leaderTimeout is how long a call is retried without a leader, if --timeout is not given. An
// election takes a few seconds.
const leaderTimeout = 15 * time.Second

// absenceTimeout is how long a call is retried while nothing listens at any address, if --timeout
// is not given.
const absenceTimeout = 1500 * time.Millisecond

// Globals are the flags of every command that talks to a cluster.
type Globals struct {
	Addr, Token, context string
	ca, cert, key        string
	Timeout              time.Duration
	Stale, debug         bool
}

// Register adds the flags.
func (g *Globals) Register(f *pflag.FlagSet) {
	f.StringVar(&g.Addr, "addr", "",
		"gRPC addresses of one or more peers, comma-separated (HOLDFAST_ADDR; default "+defaultAddr+")")
	f.StringVar(&g.Token, "token", "", "access token (better: HOLDFAST_TOKEN, which other users cannot see)")
	f.StringVar(&g.context, "context", "",
		"context of the config file to use (HOLDFAST_CONTEXT); this flag replaces HOLDFAST_ADDR, _TOKEN, _CA, _CERT "+
			"and _KEY")
	f.StringVar(&g.ca, "ca", "", "file with the CA certificates of the cluster, which turns TLS on (HOLDFAST_CA)")
	f.StringVar(&g.cert, "cert", "", "file with a client certificate (HOLDFAST_CERT)")
	f.StringVar(&g.key, "key", "", "file with its key (HOLDFAST_KEY)")
	f.DurationVar(&g.Timeout, "timeout", client.DefaultTimeout,
		"time limit of a call with all its retries; commands that wait or follow have none unless this is set")
	f.BoolVar(&g.Stale, "stale", false, "read the peer's own state, which may be stale; works without a leader")
	f.BoolVar(&g.debug, "debug", false, "log each attempt to standard error")
}

// dial connects as flags, environment and context select, in this order. An address from a flag
// or the environment is used without the current context, because that token is for its own
// cluster. The environment is ignored if --context selects another cluster.
func (a *App) dial() (*client.Client, error) {
	cfg, err := a.ClientConfig()
	if err != nil {
		return nil, err
	}
	c, err := client.Dial(cfg)
	if err != nil {
		return nil, Usagef("%s", err) // it connects later: the settings are wrong
	}
	return c, nil
}

// WithClientFlags adds the flags that select a cluster to a command of another program, and returns
// the command.
func WithClientFlags(cmd *cobra.Command) *cobra.Command {
	new(Globals).Register(cmd.PersistentFlags())
	return cmd
}

// ClientConfig returns the connection settings of the global flags, the environment and the
// context, for commands of other packages.
func ClientConfig(cmd *cobra.Command, s Streams) (client.Config, error) {
	a := &App{Streams: s, Root: cmd} // cmd has all global flags
	a.Globals.Register(pflag.NewFlagSet("", pflag.ContinueOnError))
	g, fs := &a.Globals, cmd.Flags()
	for name, to := range map[string]*string{"addr": &g.Addr, "token": &g.Token, "context": &g.context, "ca": &g.ca,
		"cert": &g.cert, "key": &g.key} {
		v, err := fs.GetString(name)
		if err != nil {
			return client.Config{}, err
		}
		*to = v
	}
	return a.ClientConfig()
}

// ClientConfig returns the settings of the connection that flags, environment and context select.
func (a *App) ClientConfig() (client.Config, error) {
	for _, name := range []string{"token", "ca", "cert", "key"} { // context set takes an empty one
		if f := a.global(name); f.Changed && f.Value.String() == "" {
			return client.Config{}, Usagef("--%s: %q: %s", name, "", errEmpty)
		}
	}
	target, err := a.Target()
	if err != nil {
		return client.Config{}, err
	}
	tokens, err := a.tokens(target)
	if err != nil {
		return client.Config{}, err
	}
	if a.Globals.Timeout <= 0 {
		return client.Config{}, Usagef("--timeout: %s: give more than 0", a.Globals.Timeout)
	}
	tlsConfig, err := LoadTLS(target.Context)
	if err != nil {
		return client.Config{}, err
	}
	level := slog.LevelWarn
	if a.Globals.debug {
		level = slog.LevelDebug
	}
	leader, absence := leaderTimeout, absenceTimeout
	if a.TimeoutGiven() {
		leader, absence = 0, 0 // as long as the user has said
	}
	return client.Config{
		LeaderTimeout: leader, AbsenceTimeout: absence,
		Addrs: target.Addrs, Token: target.Token, Tokens: tokens, TLS: tlsConfig, Timeout: a.Globals.Timeout,
		Consistency: client.Consistency{Stale: a.Globals.Stale},
		Logger:      slog.New(noteHandler{w: a.Err, level: level}),
	}, nil
}

// Destination is the selected cluster.
type Destination struct {
	profile.Context
	Name     string // of the context; empty if none is used
	Contexts string // path of the file of contexts
	explicit bool   // the token is from a flag or the environment
}

// Target returns the cluster that flags, environment and context select.
func (a *App) Target() (Destination, error) {
	g := a.Globals
	env := a.Getenv
	if g.context != "" {
		env = func(string) string { return "" }
	}
	name := cmp.Or(g.context, env("HOLDFAST_CONTEXT"))
	addr := cmp.Or(g.Addr, env("HOLDFAST_ADDR"))
	var c Destination
	if addr == "" || name != "" {
		path, err := profile.Path(a.Getenv)
		if err != nil && name != "" {
			return c, err
		}
		if err == nil {
			file, err := profile.Load(path)
			if err != nil {
				return c, err
			}
			if c.Context, err = file.Context(name); err != nil {
				return c, err
			}
			c.Name, c.Contexts = cmp.Or(name, file.Current), path
		}
	}
	if addr != "" {
		var err error
		if c.Addrs, err = SplitAddrs(addr); err != nil {
			return c, err
		}
	}
	if len(c.Addrs) == 0 {
		c.Addrs = []string{defaultAddr}
	}
	given := cmp.Or(g.Token, env("HOLDFAST_TOKEN"))
	if err := CheckToken(given); err != nil {
		return c, err
	}
	c.Token, c.explicit = cmp.Or(given, c.Token), given != ""
	c.CA = cmp.Or(g.ca, env("HOLDFAST_CA"), c.CA)
	c.Cert = cmp.Or(g.cert, env("HOLDFAST_CERT"), c.Cert)
	c.Key = cmp.Or(g.key, env("HOLDFAST_KEY"), c.Key)
	return c, nil
}

// LoadTLS returns nil if neither a CA nor a certificate is set.
func LoadTLS(c profile.Context) (*tls.Config, error) {
	switch {
	case c.CA == "" && c.Cert == "" && c.Key == "":
		return nil, nil
	case c.Cert == "" && c.Key != "":
		return nil, Usagef("--key %s: give the certificate that it belongs to, with --cert or HOLDFAST_CERT", c.Key)
	case c.Cert != "" && c.Key == "":
		return nil, Usagef("--cert %s: give its key, with --key or HOLDFAST_KEY", c.Cert)
	}
	cfg, err := client.LoadTLS(c.CA, c.Cert, c.Key)
	if err != nil {
		return nil, Usagef("%s", err)
	}
	return cfg, nil
}

// CheckToken refuses a text that cannot be a token, without showing it.
func CheckToken(token string) error {
	if strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return Usagef("--token or HOLDFAST_TOKEN: contains a blank, a line break or another character that no token " +
			"has: copy the token again, without the end of its line")
	}
	return nil
}

// SplitAddrs returns the addresses of a list with commas or blanks.
func SplitAddrs(s string) ([]string, error) {
	if slices.ContainsFunc(strings.Split(s, ","), blank) {
		return nil, Usagef("--addr or HOLDFAST_ADDR: %q has no address beside a comma: want host:port, "+
			"or several with one comma between two", s)
	}
	return strings.FieldsFunc(s, func(r rune) bool { return r == ',' || r == ' ' }), nil
}

// Online returns a command function for f, which needs a client.
func (a *App) Online(
	f func(ctx context.Context, c *client.Client, args []string) error,
) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) (err error) {
		c, err := a.dial()
		if err != nil {
			return err
		}
		defer func() { _ = c.Close() }()
		return a.suggest(cmd.Context(), c, f(cmd.Context(), c, args))
	}
}

// Limit returns the time limit of a wait: that of --wait, else that of --timeout if it is set; 0:
// none.
func (a *App) Limit(wait time.Duration) time.Duration {
	if wait == 0 && a.TimeoutGiven() {
		return a.Globals.Timeout
	}
	return wait
}

// Patience returns the context of a command that waits or follows, with its limit.
func (a *App) Patience(ctx context.Context, wait time.Duration) (context.Context, context.CancelFunc) {
	if limit := a.Limit(wait); limit > 0 {
		return context.WithTimeout(ctx, limit)
	}
	return context.WithCancel(ctx)
}

// tokens returns the tokens of the sign-in of a context, or nil if there is none.
func (a *App) tokens(t Destination) (func(context.Context) (string, error), error) {
	if t.Name == "" || t.explicit {
		return nil, nil
	}
	store := login.At(t.Contexts, t.Name)
	saved, ok, err := store.Load()
	if err != nil || !ok {
		return nil, err
	}
	source := login.NewSource(store, saved, a.Now)
	return func(ctx context.Context) (string, error) {
		token, err := source.Token(ctx)
		if err != nil {
			return "", status.Error(codes.Unauthenticated, err.Error())
		}
		return token, nil
	}, nil
}
