package serve

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/holdfast-metal/holdfast/internal/tracing"
	"github.com/holdfast-metal/holdfast/providers"
	"github.com/holdfast-metal/holdfast/server/auth"
	"github.com/holdfast-metal/holdfast/server/egress"
)

// Config is the configuration of a peer. Each field is a flag, an environment variable and a
// key of the configuration file (docs/operating.md): --node-id, HOLDFAST_NODE_ID, node_id.
type Config struct {
	File string // --config

	NodeID, DataDir                                                 string
	GRPCAddr, HTTPAddr, RaftAddr, GossipAddr                        string
	AdvertiseGRPC, AdvertiseHTTP, AdvertiseRaft, AdvertiseGossip    string
	Join                                                            []string
	BootstrapExpect                                                 int
	Insecure, Dev, LeaveOnStop                                      bool
	OnShutdown                                                      string
	LogLevel, LogFormat, LogStore                                   string
	RaftMultiplier                                                  float64
	MaxActiveRuns, DefaultStepTimeoutSeconds, DefaultStepMaxRetries int
	DefaultInstallTimeoutSeconds                                    int
	ReconcileIntervalSeconds, HealthIntervalSeconds, LookCalls      int
	AutoDiscover                                                    bool
	AutoDiscoverLimit                                               uint32
	DenyURLs                                                        []string
	PlatformMarginPercent                                           float64
	RaftSnapshotThreshold, RaftTrailingLogs                         uint64        // hidden, for tests
	RaftSnapshotInterval, RaftStallTimeout                          time.Duration // the same

	RateLimitPerSecond float64

	tlsConfig
	secretsConfig
	netbootConfig
	archiveConfig

	tracing  tracing.Config
	settings string // what flags, environment and file have come to

	Providers   map[string]providers.Config // in the file only
	OIDCIssuers []auth.Issuer               // the same
}

// flags declares every key once. The file and the environment use the same table.
func (c *Config) flags(fs *pflag.FlagSet) {
	host, _ := os.Hostname()
	fs.StringVar(&c.File, "config", "", "read keys from this YAML `file`; flags and environment win over it")
	fs.StringVar(&c.NodeID, "node-id", host, "stable `name` of this peer, unique in the cluster")
	fs.StringVar(&c.DataDir, "data-dir", "", "`directory` of all state; made with mode 0700")
	fs.StringVar(&c.GRPCAddr, "grpc-addr", "127.0.0.1:7400", "`address` of the gRPC API")
	fs.StringVar(&c.HTTPAddr, "http-addr", "127.0.0.1:7401", "`address` of HTTP: metrics, health, version")
	fs.StringVar(&c.RaftAddr, "raft-addr", "127.0.0.1:7402", "`address` of Raft between peers")
	fs.StringVar(&c.GossipAddr, "gossip-addr", "127.0.0.1:7403", "`address` of gossip between peers (TCP and UDP)")
	fs.StringVar(&c.AdvertiseGRPC, "advertise-grpc", "", "`address` others reach the gRPC API at, where it differs")
	fs.StringVar(&c.AdvertiseHTTP, "advertise-http", "", "`address` others reach HTTP at, where it differs")
	fs.StringVar(&c.AdvertiseRaft, "advertise-raft", "", "`address` others reach Raft at, where it differs")
	fs.StringVar(&c.AdvertiseGossip, "advertise-gossip", "", "`address` others reach gossip at, where it differs")
	fs.StringSliceVar(&c.Join, "join", nil, "gossip `addresses` of other peers, host:port,…")
	fs.IntVar(&c.BootstrapExpect, "bootstrap-expect", 0,
		"`peers` that must see each other before a new cluster forms; 0 only joins")
	c.tlsConfig.flags(fs)
	c.secretsConfig.flags(fs)
	c.netbootConfig.flags(fs)
	c.archiveConfig.flags(fs)
	c.tracing.Flags(fs)
	fs.BoolVar(&c.Insecure, "insecure", false, "no TLS and no authentication: loopback addresses only")
	fs.BoolVar(&c.Dev, "dev", false, "one peer, in memory, insecure, with fake hardware")
	fs.StringVar(&c.OnShutdown, "on-shutdown", "handover",
		"what a graceful stop does with active runs: `handover` to the next leader, or cancel (always, when there is "+
			"no other peer)")
	fs.BoolVar(&c.LeaveOnStop, "leave-on-stop", false, "leave the cluster for good on a graceful stop")
	fs.StringVar(&c.LogLevel, "log-level", "info", "`level`: debug, info, warn, error")
	fs.StringVar(&c.LogFormat, "log-format", "text", "`format`: text or json")
	fs.Float64Var(&c.RaftMultiplier, "raft-multiplier", 1,
		"`factor` of Raft's timeouts (500 ms heartbeat and election, 250 ms lease)")
	fs.StringVar(&c.LogStore, "log-store", "",
		"`store` of the Raft log: wal, or boltdb, which is slower; a log in the other one moves at the start (default: "+
			"where it is, and wal for a new data directory)")
	fs.IntVar(&c.MaxActiveRuns, "max-active-runs", 10_000, "`runs` at work at once; the others wait in line")
	fs.IntVar(&c.DefaultStepTimeoutSeconds, "default-step-timeout-seconds", 600,
		"`seconds` for steps that set no timeout")
	fs.IntVar(&c.DefaultInstallTimeoutSeconds, "default-install-timeout-seconds", 3600,
		"`seconds` for steps that install and set no timeout: servers take minutes to boot")
	fs.IntVar(&c.DefaultStepMaxRetries, "default-step-max-retries", 2, "`retries` for steps that set none")
	fs.Float64Var(&c.RateLimitPerSecond, "rate-limit-per-second", 1000,
		"`calls` a second of one user; agents may make a twentieth of it; 0: any number")
	fs.IntVar(&c.ReconcileIntervalSeconds, "reconcile-interval-seconds", 30,
		"`seconds` between two looks at a machine's conditions")
	fs.IntVar(&c.HealthIntervalSeconds, "health-interval-seconds", 900,
		"`seconds` between two looks at the health of its hardware, which are dear")
	fs.IntVar(&c.LookCalls, "look-calls-per-second", 500,
		"`calls` a second that all such looks may make; calls_per_second of a provider is its own budget")
	fs.BoolVar(&c.AutoDiscover, "auto-discover", false,
		"make machines of reports from MAC addresses that nobody knows; they await approval")
	fs.StringSliceVar(&c.DenyURLs, "deny-urls", egress.Default(),
		"`networks` that images, webhooks and virtual media must not be fetched from, e.g. also 127.0.0.0/8; none: all may be")
	fs.Uint32Var(&c.AutoDiscoverLimit, "auto-discover-limit", 1000,
		"`machines` that may await approval before --auto-discover makes no more; 0: no limit")
	fs.Float64Var(&c.PlatformMarginPercent, "platform-margin-percent", 0,
		"`percent` that marketplace providers are told at registration")
	c.hidden(fs)
}

// hidden declares settings for tests, which --help does not show.
func (c *Config) hidden(fs *pflag.FlagSet) {
	fs.Uint64Var(&c.RaftSnapshotThreshold, "raft-snapshot-threshold", 0,
		"`entries` since the last snapshot that are worth another")
	fs.Uint64Var(&c.RaftTrailingLogs, "raft-trailing-logs", 0, "`entries` kept after a snapshot")
	fs.DurationVar(&c.RaftSnapshotInterval, "raft-snapshot-interval", 0, "`time` between two looks at the threshold")
	fs.DurationVar(&c.RaftStallTimeout, "raft-stall-timeout", 0, "`time` after which a leader that cannot commit ends")
	for _, name := range []string{"raft-snapshot-threshold", "raft-trailing-logs", "raft-snapshot-interval",
		"raft-stall-timeout"} {
		_ = fs.MarkHidden(name) // it fails for flags that are not there only
	}
}

// settle sets defaults that depend on other keys, and refuses invalid combinations.
func (c *Config) settle() error {
	if c.Dev {
		c.Insecure, c.DataDir, c.BootstrapExpect, c.Join = true, "", 1, nil
		if len(c.Providers) == 0 {
			c.Providers = map[string]providers.Config{"fake": {Kind: "fake", Raw: []byte("{}")}}
		}
	} else if c.DataDir == "" {
		return errors.New("set --data-dir: all state is kept there (or try --dev, which keeps it in memory)")
	}
	if c.NodeID == "" {
		return errors.New("set --node-id: the stable name of this peer")
	}
	if c.OnShutdown != "handover" && c.OnShutdown != "cancel" {
		return fmt.Errorf("set --on-shutdown to handover or cancel, not %q", c.OnShutdown)
	}
	if c.BootstrapExpect < 0 || c.BootstrapExpect > 1 && c.BootstrapExpect%2 == 0 {
		return fmt.Errorf(
			"set --bootstrap-expect to 1, 3, 5 or 7, not %d: an even number of voters survives no more failures",
			c.BootstrapExpect)
	}
	if c.BootstrapExpect != 1 && len(c.Join) == 0 {
		return errors.New("set --join to the gossip addresses of other peers (or --bootstrap-expect=1 for a peer alone)")
	}
	if err := c.tracing.Check(); err != nil {
		return err
	}
	if err := c.secretsConfig.settle(); err != nil {
		return err
	}
	if err := c.tlsConfig.settle(c.Insecure, c.NodeID); err != nil {
		return err
	}
	if !c.Insecure {
		return nil
	}
	return c.checkLoopback()
}

// checkLoopback refuses addresses other than loopback for an unprotected peer
// (docs/operating.md).
func (c *Config) checkLoopback() error {
	for _, a := range []struct{ flag, addr string }{
		{"grpc-addr", c.GRPCAddr}, {"http-addr", c.HTTPAddr}, {"raft-addr", c.RaftAddr}, {"gossip-addr", c.GossipAddr},
		{"netboot-addr", c.NetbootAddr}, {"advertise-grpc", c.AdvertiseGRPC}, {"advertise-http",
			c.AdvertiseHTTP}, {"advertise-raft", c.AdvertiseRaft}, {"advertise-gossip", c.AdvertiseGossip},
	} {
		if a.addr == "" && (strings.HasPrefix(a.flag, "advertise") || a.flag == "netboot-addr") {
			continue
		}
		host, _, err := net.SplitHostPort(a.addr)
		if err != nil {
			return fmt.Errorf("read --%s %q: want host:port", a.flag, a.addr)
		}
		if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
			return fmt.Errorf(
				"refuse --insecure with --%s %s: without TLS only loopback addresses are served, such as 127.0.0.1", a.flag, a.addr)
		}
	}
	return nil
}

// logger returns the logger of the process.
func (c *Config) logger() (*slog.Logger, error) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(c.LogLevel)); err != nil {
		return nil, fmt.Errorf("read --log-level %q: want debug, info, warn or error", c.LogLevel)
	}
	opts := &slog.HandlerOptions{Level: level}
	if !slices.Contains([]string{"text", "json"}, c.LogFormat) {
		return nil, fmt.Errorf("read --log-format %q: want text or json", c.LogFormat)
	}
	var h slog.Handler = slog.NewTextHandler(os.Stderr, opts)
	if c.LogFormat == "json" {
		h = slog.NewJSONHandler(os.Stderr, opts)
	}
	return slog.New(h), nil
}
