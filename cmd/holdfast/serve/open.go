package serve

import (
	"cmp"
	"context"
	"crypto/x509"
	"fmt"
	"log/slog"
	"net"
	"runtime"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/holdfast-metal/holdfast/cluster"
	"github.com/holdfast-metal/holdfast/cluster/clock"
	"github.com/holdfast-metal/holdfast/cluster/peertls"
	"github.com/holdfast-metal/holdfast/executor/retention"
	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/internal/cli/flagerror"
	"github.com/holdfast-metal/holdfast/internal/portowner"
	"github.com/holdfast-metal/holdfast/internal/secrets"
	"github.com/holdfast-metal/holdfast/internal/tracing"
	"github.com/holdfast-metal/holdfast/server/auth"
	"github.com/holdfast-metal/holdfast/server/connlimit"
	"github.com/holdfast-metal/holdfast/server/egress"
)

// opened contains the parts of a peer that hold files, ports and state.
type opened struct {
	cfg     *Config
	version string
	log     *slog.Logger
	reg     *prometheus.Registry
	keys    *secrets.Keyring
	state   *fsm.FSM
	clock   *clock.Clock
	tls     *peertls.Store                                          // nil without TLS
	sign    func(*x509.Certificate, []byte) ([]byte, string, error) // nil if this peer has no CA key
	fetches *egress.Policy
	limit   *connlimit.Limiter
	archive retention.Archive // nil for none
	traces  *tracing.Tracing
	node    *cluster.Peer

	grpc, http net.Listener
	boot       net.Listener // nil without --netboot-addr

	closers []func()
}

// open opens a peer. It writes nothing before the settings are checked and the ports are open.
func open(ctx context.Context, cfg *Config, version string, log *slog.Logger) (_ *opened, err error) {
	o := &opened{cfg: cfg, version: version, log: log.With("peer", cfg.PeerID)} // package cluster adds it itself
	defer func() {
		if err != nil {
			o.close()
		}
	}()
	if err := o.check(); err != nil {
		return nil, flagerror.Invalid(err)
	}
	if err := o.listen(ctx); err != nil {
		return nil, err
	}
	archive, done, err := cfg.archiveConfig.open(o.fetches.Transport())
	o.closing(done)
	if err != nil {
		return nil, flagerror.Invalid(err)
	}
	o.archive = archive
	if o.traces, err = cfg.tracing.Open(ctx, cfg.PeerID, version, o.log); err != nil {
		return nil, err
	}
	o.closing(func() { o.traces.Close(o.log) }) //nolint:contextcheck // the remaining spans are sent although ctx has ended
	if o.node, err = cluster.New(o.cluster(log), o.state); err != nil {
		return nil, err
	}
	o.closing(o.node.Close) // if it does not run
	return o, nil
}

// closing adds a part to be closed.
func (o *opened) closing(done func()) { o.closers = append(o.closers, done) }

// close closes all parts, the last one first.
func (o *opened) close() {
	for _, done := range slices.Backward(o.closers) {
		done()
	}
}

// check reads what the settings name.
func (o *opened) check() (err error) {
	if err := o.cfg.checkValues(false); err != nil {
		return err
	}
	o.reg = prometheus.NewRegistry()
	o.reg.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		buildInfo(o.version))
	if err := cluster.BridgeMetrics(o.reg); err != nil {
		return fmt.Errorf("bridge metrics: %w", err)
	}
	if o.keys, err = secrets.Open(o.cfg.SecretsKeyFile, o.log); err != nil {
		return err
	}
	o.state = fsm.New()
	o.clock = clock.New(func() time.Time { return o.state.View().Now() })
	if o.tls, err = o.cfg.tlsConfig.open(o.cfg.Insecure, o.cfg.PeerID, o.cfg.DataDir, o.clock, o.log, o.reg); err != nil {
		return err
	}
	if o.sign, err = o.cfg.peers.Signer(o.clock.Now); err != nil {
		return err
	}
	o.fetches, err = egress.New(o.cfg.DenyURLs)
	return err
}

// listen opens the ports: one in use must be noticed before anything is written.
func (o *opened) listen(ctx context.Context) (err error) {
	if o.grpc, err = o.port(ctx, "grpc-addr", o.cfg.GRPCAddr); err != nil {
		return err
	}
	if o.http, err = o.port(ctx, "http-addr", o.cfg.HTTPAddr); err != nil {
		return err
	}
	if o.cfg.NetbootAddr != "" {
		o.boot, err = o.port(ctx, "netboot-addr", o.cfg.NetbootAddr)
	}
	o.limit = connlimit.OfProcess(connlimit.ForFiles, o.log, o.reg)
	return err
}

// port opens the port of a flag, which close closes.
func (o *opened) port(ctx context.Context, flag, addr string) (net.Listener, error) {
	ln, err := new(net.ListenConfig).Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, portowner.Explain(fmt.Errorf("listen for --%s: %w", flag, err), addr)
	}
	o.closing(func() { _ = ln.Close() })
	return ln, nil
}

// cluster returns the configuration of the peer's part in the cluster. Package cluster adds the
// peer to log.
func (o *opened) cluster(log *slog.Logger) cluster.Config {
	cfg := o.cfg
	return cluster.Config{
		PeerID:        cfg.PeerID,
		DataDir:       cfg.DataDir,
		LogStore:      cfg.LogStore,
		RaftAddr:      cfg.RaftAddr,
		GossipAddr:    cfg.GossipAddr,
		AdvertiseRaft: cfg.AdvertiseRaft, AdvertiseGossip: cfg.AdvertiseGossip,
		AdvertiseGRPC: cmp.Or(cfg.AdvertiseGRPC, o.grpc.Addr().String()),
		AdvertiseHTTP: cmp.Or(cfg.AdvertiseHTTP, o.http.Addr().String()),
		Clock:         o.clock,
		TLS:           o.tls, SignPeer: o.sign, GossipKeyFile: cfg.GossipKeyFile,
		LimitPeers: connlimit.OfPeers(o.tls != nil, o.log, o.reg),
		Join:       cfg.Join, BootstrapExpect: cfg.BootstrapExpect, AdmitManually: cfg.AdmitPeers == "manual",
		RaftMultiplier: cfg.RaftMultiplier, Genesis: fsm.Genesis(),
		Version:           o.version,
		Logger:            log,
		Registerer:        o.reg,
		Tracer:            o.traces.Tracer(),
		DialOptions:       o.traces.Forwarded(),
		LeaveOnStop:       cfg.LeaveOnStop,
		ForwardMetadata:   auth.Forward,
		SnapshotThreshold: cfg.RaftSnapshotThreshold,
		SnapshotInterval:  cfg.RaftSnapshotInterval,
		TrailingLogs:      cfg.RaftTrailingLogs,
		StallTimeout:      cfg.RaftStallTimeout,
	}
}

// buildInfo exports the build as a metric. Alerts on mixed versions and dashboards read it.
func buildInfo(version string) prometheus.Collector {
	g := prometheus.NewGauge(prometheus.GaugeOpts{Name: "holdfast_build_info",
		Help:        "1, with the version of this peer and the Go that it was built with.",
		ConstLabels: prometheus.Labels{"version": version, "goversion": runtime.Version()}})
	g.Set(1)
	return g
}
