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

	"github.com/holdfast-metal/holdfast/internal/cli/render"
	"github.com/holdfast-metal/holdfast/internal/tracing"
	"github.com/holdfast-metal/holdfast/providers"
	"github.com/holdfast-metal/holdfast/server/auth"
	"github.com/holdfast-metal/holdfast/server/egress"
)

// Config is the configuration of a peer. Each field is a flag, an environment variable and a
// key of the configuration file (docs/operating.md): --node-id, HOLDFAST_NODE_ID, node_id.
type Config struct {
	File string // --config

	PeerID, DataDir                                                 string
	GRPCAddr, HTTPAddr, RaftAddr, GossipAddr                        string
	AdvertiseGRPC, AdvertiseHTTP, AdvertiseRaft, AdvertiseGossip    string
	Join, DenyURLs                                                  []string
	BootstrapExpect                                                 int
	AdmitPeers, OpenWebhooks                                        string
	Insecure, Dev, LeaveOnStop, AutoDiscover, RecordConsoles        bool
	OnShutdown                                                      string
	LogLevel, LogFormat, LogStore                                   string
	RaftMultiplier                                                  float64
	MaxActiveRuns, DefaultStepTimeoutSeconds, DefaultStepMaxRetries int
	DefaultInstallTimeoutSeconds, ConsoleKeepDays                   int
	ReconcileIntervalSeconds, HealthIntervalSeconds, PollCalls      int
	AutoDiscoverLimit, EnrollLimit                                  uint32
	PlatformMarginPercent, RateLimitPerSecond                       float64
	RaftSnapshotThreshold, RaftTrailingLogs                         uint64        // hidden, for tests
	RaftSnapshotInterval, RaftStallTimeout                          time.Duration // the same

	tlsConfig
	secretsConfig
	netbootConfig
	archiveConfig

	tracing  tracing.Config
	settings string // the effective settings: see the function of that name

	Providers   map[string]providers.Config // in the file only
	OIDCIssuers []auth.Issuer               // the same
}

// flags declares every key once. The file and the environment use the same table.
func (c *Config) flags(fs *pflag.FlagSet) {
	host, _ := os.Hostname()
	fs.StringVar(&c.File, "config", "", "YAML `file` with these keys; flags and environment override it")
	fs.StringVar(&c.PeerID, "node-id", host, "stable `name` of this peer, unique in the cluster")
	fs.StringVar(&c.DataDir, "data-dir", "", "`directory` of all state, created with mode 0700")
	fs.StringVar(&c.GRPCAddr, "grpc-addr", "127.0.0.1:7400", "`address` of the gRPC API")
	fs.StringVar(&c.HTTPAddr, "http-addr", "127.0.0.1:7401", "`address` of HTTP: metrics, health, version")
	fs.StringVar(&c.RaftAddr, "raft-addr", "127.0.0.1:7402", "`address` of Raft between peers")
	fs.StringVar(&c.GossipAddr, "gossip-addr", "127.0.0.1:7403", "`address` of gossip between peers (TCP and UDP)")
	fs.StringVar(&c.AdvertiseGRPC, "advertise-grpc", "", "`address` of the gRPC API for others, if it differs")
	fs.StringVar(&c.AdvertiseHTTP, "advertise-http", "", "`address` of HTTP for others, if it differs")
	fs.StringVar(&c.AdvertiseRaft, "advertise-raft", "", "`address` of Raft for others, if it differs")
	fs.StringVar(&c.AdvertiseGossip, "advertise-gossip", "", "`address` of gossip for others, if it differs")
	fs.StringSliceVar(&c.Join, "join", nil, "gossip `addresses` of other peers, host:port,…")
	fs.IntVar(&c.BootstrapExpect, "bootstrap-expect", 0,
		"`number` of peers that form a new cluster; 0: join an existing one")
	fs.StringVar(&c.AdmitPeers, "admit-peers", "auto",
		"whether new peers join by themselves: `auto or manual` (an admin runs: holdfast peer admit ID); manual holds for the "+
			"cluster if one peer has it")
	c.tlsConfig.flags(fs)
	c.secretsConfig.flags(fs)
	c.netbootConfig.flags(fs)
	c.archiveConfig.flags(fs)
	c.tracing.Flags(fs)
	fs.BoolVar(&c.Insecure, "insecure", false, "no TLS and no authentication: loopback addresses only")
	fs.BoolVar(&c.Dev, "dev", false, "one peer, in memory, insecure, with fake hardware")
	fs.StringVar(&c.OnShutdown, "on-shutdown", "handover",
		"active runs at a graceful stop: `handover` to the next leader, or cancel (always, if there is no other peer)")
	fs.BoolVar(&c.LeaveOnStop, "leave-on-stop", false, "leave the cluster permanently on a graceful stop")
	fs.StringVar(&c.LogLevel, "log-level", "info", "`level`: debug, info, warn, error")
	fs.StringVar(&c.LogFormat, "log-format", "text", "`format`: text or json")
	fs.Float64Var(&c.RaftMultiplier, "raft-multiplier", 1,
		"`factor` of Raft's timeouts (500 ms heartbeat and election, 250 ms lease)")
	fs.StringVar(&c.LogStore, "log-store", "",
		"`store` of the Raft log: wal, or boltdb, which is slower; an existing log keeps its store (default: that one; "+
			"wal for a new data directory)")
	fs.IntVar(&c.MaxActiveRuns, "max-active-runs", 10_000, "maximum `number` of runs that execute at the same time; the others wait in a queue")
	fs.IntVar(&c.DefaultStepTimeoutSeconds, "default-step-timeout-seconds", 600,
		"default timeout of a step, in `seconds`")
	fs.IntVar(&c.DefaultInstallTimeoutSeconds, "default-install-timeout-seconds", 3600,
		"default timeout of a step that installs, in `seconds`")
	fs.IntVar(&c.DefaultStepMaxRetries, "default-step-max-retries", 2, "default `number` of retries of a step")
	fs.Float64Var(&c.RateLimitPerSecond, "rate-limit-per-second", 1000,
		"maximum `calls` per second of a user; agents: a twentieth of it; 0: no limit")
	fs.IntVar(&c.ReconcileIntervalSeconds, "reconcile-interval-seconds", 30,
		"`seconds` between two polls of a machine")
	fs.IntVar(&c.HealthIntervalSeconds, "health-interval-seconds", 900,
		"`seconds` between two polls of the health of its hardware, which take more calls")
	fs.IntVar(&c.PollCalls, "poll-calls-per-second", 500,
		"maximum `calls` per second of all polls; a provider's own limit is its calls_per_second")
	fs.BoolVar(&c.AutoDiscover, "auto-discover", false,
		"create a machine for an unknown MAC address that boots or reports; it awaits approval")
	fs.StringSliceVar(&c.DenyURLs, "deny-urls", egress.Default(),
		"`networks` that images, webhooks and virtual media may not use, such as 127.0.0.0/8; none: all are allowed")
	fs.StringVar(&c.OpenWebhooks, "open-webhooks", "allow",
		"webhooks with an http URL or without a secret that signs: `allow or refuse`")
	fs.Uint32Var(&c.AutoDiscoverLimit, "auto-discover-limit", 1000,
		"maximum `number` of machines that --auto-discover creates and that await approval; 0: no limit")
	fs.Uint32Var(&c.EnrollLimit, "enroll-limit", 1000,
		"maximum `number` of machines of a pool that agents create with a shared token and that await approval; 0: no limit")
	fs.BoolVar(&c.RecordConsoles, "record-consoles", false, "record the output of consoles: holdfast console replay")
	fs.IntVar(&c.ConsoleKeepDays, "console-keep-days", 90, "`days` for which ended console sessions and their records are kept")
	fs.Float64Var(&c.PlatformMarginPercent, "platform-margin-percent", 0,
		"margin in `percent`, returned to marketplace providers at registration")
	c.hidden(fs)
}

// hidden declares settings for tests, which --help does not show.
func (c *Config) hidden(fs *pflag.FlagSet) {
	fs.Uint64Var(&c.RaftSnapshotThreshold, "raft-snapshot-threshold", 0,
		"`entries` since the last snapshot that trigger another")
	fs.Uint64Var(&c.RaftTrailingLogs, "raft-trailing-logs", 0, "`entries` kept after a snapshot")
	fs.DurationVar(&c.RaftSnapshotInterval, "raft-snapshot-interval", 0, "`time` between two checks of the threshold")
	fs.DurationVar(&c.RaftStallTimeout, "raft-stall-timeout", 0, "`time` after which a leader that cannot commit ends")
	for _, name := range []string{"raft-snapshot-threshold", "raft-trailing-logs", "raft-snapshot-interval",
		"raft-stall-timeout"} {
		_ = fs.MarkHidden(name) // fails for unknown flags only
	}
}

// settle sets defaults that depend on other keys, and returns an error for each invalid value and
// combination.
func (c *Config) settle() error {
	if c.Dev {
		c.Insecure, c.BootstrapExpect = true, 1
		if len(c.Providers) == 0 {
			c.Providers = map[string]providers.Config{"fake": {Kind: "fake", Raw: []byte("{}")}}
		}
	}
	if c.Insecure {
		if err := c.checkLoopback(); err != nil {
			return err // before any other advice: the danger comes first
		}
	}
	_, err := c.logger()
	_, routed := c.routed()
	return errors.Join(routed, c.checkIdentity(), c.checkAddresses(), c.checkNumbers(), err, c.tracing.Check(),
		c.secretsConfig.settle(), c.tlsConfig.settle(c.Insecure, c.PeerID))
}

// checkIdentity returns an error for each invalid setting of this peer and its cluster.
func (c *Config) checkIdentity() error {
	var errs []error
	if c.DataDir == "" && !c.Dev {
		errs = append(errs,
			errors.New("set --data-dir: all state is kept there (or try --dev, which keeps it in memory)"))
	}
	if c.PeerID == "" {
		errs = append(errs, errors.New("set --node-id: the stable name of this peer"))
	}
	if c.OnShutdown != "handover" && c.OnShutdown != "cancel" {
		errs = append(errs, fmt.Errorf("set --on-shutdown to handover or cancel, not %q", c.OnShutdown))
	}
	if c.AdmitPeers != "auto" && c.AdmitPeers != "manual" {
		errs = append(errs, fmt.Errorf("set --admit-peers to auto or manual, not %q", c.AdmitPeers))
	}
	if c.OpenWebhooks != "allow" && c.OpenWebhooks != "refuse" {
		errs = append(errs, fmt.Errorf("set --open-webhooks to allow or refuse, not %q", c.OpenWebhooks))
	}
	if !slices.Contains([]int{0, 1, 3, 5, 7}, c.BootstrapExpect) {
		errs = append(errs, fmt.Errorf("set --bootstrap-expect to 1, 3, 5 or 7, or 0 to join an existing cluster, not %d",
			c.BootstrapExpect))
	}
	if c.BootstrapExpect != 1 && len(c.Join) == 0 {
		errs = append(errs,
			errors.New("set --join to the gossip addresses of other peers (or --bootstrap-expect=1 for a peer alone)"))
	}
	return errors.Join(errs...)
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
			continue // checkAddresses reports it
		}
		if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
			return fmt.Errorf(
				"refuse --insecure (or --dev) with --%s %s: anybody who reaches that address could erase every machine: "+
					"set up TLS (holdfast tls init), or use a loopback address such as 127.0.0.1", a.flag, a.addr)
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
		h = slog.NewJSONHandler(render.NewLogWriter(os.Stderr), opts)
	}
	return slog.New(h), nil
}
