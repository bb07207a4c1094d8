package cli

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

// globals are the flags of every command that talks to a cluster.
type globals struct {
	addr, token, context string
	ca, cert, key        string
	timeout              time.Duration
	stale, debug         bool
}

// register adds the flags.
func (g *globals) register(f *pflag.FlagSet) {
	f.StringVar(&g.addr, "addr", "",
		"gRPC addresses of one or more peers, comma-separated (HOLDFAST_ADDR; default "+defaultAddr+")")
	f.StringVar(&g.token, "token", "", "access token (better: HOLDFAST_TOKEN, which other users cannot see)")
	f.StringVar(&g.context, "context", "",
		"context of the config file to use (HOLDFAST_CONTEXT); this flag replaces HOLDFAST_ADDR, _TOKEN, _CA, _CERT "+
			"and _KEY")
	f.StringVar(&g.ca, "ca", "", "file with the CA certificates of the cluster, which turns TLS on (HOLDFAST_CA)")
	f.StringVar(&g.cert, "cert", "", "file with a client certificate (HOLDFAST_CERT)")
	f.StringVar(&g.key, "key", "", "file with its key (HOLDFAST_KEY)")
	f.DurationVar(&g.timeout, "timeout", client.DefaultTimeout,
		"time limit of a call with all its retries; commands that wait or follow have none unless this is set")
	f.BoolVar(&g.stale, "stale", false, "read the peer's own state, which may be stale; works without a leader")
	f.BoolVar(&g.debug, "debug", false, "log each attempt to standard error")
}

// dial connects as flags, environment and context select, in this order. An address from a flag
// or the environment is used without the current context, because that token is for its own
// cluster. The environment is ignored if --context selects another cluster.
func (a *app) dial() (*client.Client, error) {
	cfg, err := a.clientConfig()
	if err != nil {
		return nil, err
	}
	c, err := client.Dial(cfg)
	if err != nil {
		return nil, usagef("%s", err) // it connects later: the settings are wrong
	}
	return c, nil
}

// WithClientFlags adds the flags that select a cluster to a command of another program, and returns
// the command.
func WithClientFlags(cmd *cobra.Command) *cobra.Command {
	new(globals).register(cmd.PersistentFlags())
	return cmd
}

// ClientConfig returns the connection settings of the global flags, the environment and the
// context, for commands of other packages.
func ClientConfig(cmd *cobra.Command, s Streams) (client.Config, error) {
	a := &app{Streams: s, root: cmd} // cmd has all global flags
	a.globals.register(pflag.NewFlagSet("", pflag.ContinueOnError))
	g, fs := &a.globals, cmd.Flags()
	for name, to := range map[string]*string{"addr": &g.addr, "token": &g.token, "context": &g.context, "ca": &g.ca,
		"cert": &g.cert, "key": &g.key} {
		v, err := fs.GetString(name)
		if err != nil {
			return client.Config{}, err
		}
		*to = v
	}
	return a.clientConfig()
}

// clientConfig returns the settings of the connection that flags, environment and context select.
func (a *app) clientConfig() (client.Config, error) {
	for _, name := range []string{"token", "ca", "cert", "key"} { // context set takes an empty one
		if f := a.global(name); f.Changed && f.Value.String() == "" {
			return client.Config{}, usagef("--%s: %q: %s", name, "", errEmpty)
		}
	}
	target, err := a.target()
	if err != nil {
		return client.Config{}, err
	}
	tokens, err := a.tokens(target)
	if err != nil {
		return client.Config{}, err
	}
	if a.globals.timeout <= 0 {
		return client.Config{}, usagef("--timeout: %s: give more than 0", a.globals.timeout)
	}
	tlsConfig, err := loadTLS(target.Context)
	if err != nil {
		return client.Config{}, err
	}
	level := slog.LevelWarn
	if a.globals.debug {
		level = slog.LevelDebug
	}
	leader, absence := leaderTimeout, absenceTimeout
	if a.timeoutGiven() {
		leader, absence = 0, 0 // as long as the user has said
	}
	return client.Config{
		LeaderTimeout: leader, AbsenceTimeout: absence,
		Addrs: target.Addrs, Token: target.Token, Tokens: tokens, TLS: tlsConfig, Timeout: a.globals.timeout,
		Consistency: client.Consistency{Stale: a.globals.stale},
		Logger:      slog.New(noteHandler{w: a.Err, level: level}),
	}, nil
}

// destination is the selected cluster.
type destination struct {
	profile.Context
	name     string // of the context; empty if none is used
	contexts string // path of the file of contexts
	explicit bool   // the token is from a flag or the environment
}

// target returns the cluster that flags, environment and context select.
func (a *app) target() (destination, error) {
	g := a.globals
	env := a.Getenv
	if g.context != "" {
		env = func(string) string { return "" }
	}
	name := cmp.Or(g.context, env("HOLDFAST_CONTEXT"))
	addr := cmp.Or(g.addr, env("HOLDFAST_ADDR"))
	var c destination
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
			c.name, c.contexts = cmp.Or(name, file.Current), path
		}
	}
	if addr != "" {
		var err error
		if c.Addrs, err = splitAddrs(addr); err != nil {
			return c, err
		}
	}
	if len(c.Addrs) == 0 {
		c.Addrs = []string{defaultAddr}
	}
	given := cmp.Or(g.token, env("HOLDFAST_TOKEN"))
	if err := checkToken(given); err != nil {
		return c, err
	}
	c.Token, c.explicit = cmp.Or(given, c.Token), given != ""
	c.CA = cmp.Or(g.ca, env("HOLDFAST_CA"), c.CA)
	c.Cert = cmp.Or(g.cert, env("HOLDFAST_CERT"), c.Cert)
	c.Key = cmp.Or(g.key, env("HOLDFAST_KEY"), c.Key)
	return c, nil
}

// loadTLS returns nil if neither a CA nor a certificate is set.
func loadTLS(c profile.Context) (*tls.Config, error) {
	switch {
	case c.CA == "" && c.Cert == "" && c.Key == "":
		return nil, nil
	case c.Cert == "" && c.Key != "":
		return nil, usagef("--key %s: give the certificate that it belongs to, with --cert or HOLDFAST_CERT", c.Key)
	case c.Cert != "" && c.Key == "":
		return nil, usagef("--cert %s: give its key, with --key or HOLDFAST_KEY", c.Cert)
	}
	cfg, err := client.LoadTLS(c.CA, c.Cert, c.Key)
	if err != nil {
		return nil, usagef("%s", err)
	}
	return cfg, nil
}

// checkToken refuses a text that cannot be a token, without showing it.
func checkToken(token string) error {
	if strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return usagef("--token or HOLDFAST_TOKEN: contains a blank, a line break or another character that no token " +
			"has: copy the token again, without the end of its line")
	}
	return nil
}

// splitAddrs returns the addresses of a list with commas or blanks.
func splitAddrs(s string) ([]string, error) {
	if slices.ContainsFunc(strings.Split(s, ","), blank) {
		return nil, usagef("--addr or HOLDFAST_ADDR: %q has no address beside a comma: want host:port, "+
			"or several with one comma between two", s)
	}
	return strings.FieldsFunc(s, func(r rune) bool { return r == ',' || r == ' ' }), nil
}

// online returns a command function for f, which needs a client.
func (a *app) online(
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

// limit returns the time limit of a wait: that of --wait, else that of --timeout if it is set; 0:
// none.
func (a *app) limit(wait time.Duration) time.Duration {
	if wait == 0 && a.timeoutGiven() {
		return a.globals.timeout
	}
	return wait
}

// patience returns the context of a command that waits or follows, with its limit.
func (a *app) patience(ctx context.Context, wait time.Duration) (context.Context, context.CancelFunc) {
	if limit := a.limit(wait); limit > 0 {
		return context.WithTimeout(ctx, limit)
	}
	return context.WithCancel(ctx)
}

// tokens returns the tokens of the sign-in of a context, or nil if there is none.
func (a *app) tokens(t destination) (func(context.Context) (string, error), error) {
	if t.name == "" || t.explicit {
		return nil, nil
	}
	store := login.At(t.contexts, t.name)
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
