package serve

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"

	"github.com/holdfast-metal/holdfast/cluster"
	"github.com/holdfast-metal/holdfast/cluster/peertls"
	"github.com/holdfast-metal/holdfast/executor"
	"github.com/holdfast-metal/holdfast/executor/bootstrap"
	"github.com/holdfast-metal/holdfast/executor/lease"
	"github.com/holdfast-metal/holdfast/executor/monitor"
	"github.com/holdfast-metal/holdfast/executor/runs"
	"github.com/holdfast-metal/holdfast/executor/step"
	"github.com/holdfast-metal/holdfast/executor/waves"
	"github.com/holdfast-metal/holdfast/executor/webhook"
	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/internal/cli/flagerror"
	"github.com/holdfast-metal/holdfast/internal/hardware"
	"github.com/holdfast-metal/holdfast/internal/heap"
	"github.com/holdfast-metal/holdfast/internal/images"
	"github.com/holdfast-metal/holdfast/internal/installer/diskrule"
	"github.com/holdfast-metal/holdfast/internal/secrets"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
	"github.com/holdfast-metal/holdfast/providers"
	"github.com/holdfast-metal/holdfast/server"
	"github.com/holdfast-metal/holdfast/server/auth"
	"github.com/holdfast-metal/holdfast/server/connlimit"
	"github.com/holdfast-metal/holdfast/server/egress"
	"github.com/holdfast-metal/holdfast/server/ui/history"
)

// Command returns the command that runs a peer. version is the version of the build.
func Command(version string) *cobra.Command {
	var cfg Config
	cmd := &cobra.Command{
		Use:   "server",
		Short: "Run one peer of a cluster",
		Long: `Run one peer of a cluster. Every flag is an environment variable too (HOLDFAST_NODE_ID) and a
key of the configuration file (node_id); flags win over the environment, and that over the file.`,
		Example: `  holdfast server --dev
  holdfast server --config /etc/holdfast/peer.yaml
  holdfast server --node-id n1 --data-dir /var/lib/holdfast --grpc-addr 10.0.0.1:7400 --http-addr 10.0.0.1:7401 --raft-addr 10.0.0.1:7402 \
    --gossip-addr 10.0.0.1:7403 --join 10.0.0.2:7403,10.0.0.3:7403 --bootstrap-expect 3 \
    --tls-ca ca.pem --tls-cert n1.pem --tls-key n1-key.pem --gossip-key-file gossip.key
  holdfast server --insecure --node-id n1 --data-dir /tmp/n1 --bootstrap-expect 3 --join 127.0.0.1:7413,127.0.0.1:7423`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := cfg.first(cmp.Or(cfg.load(cmd.Flags(), os.LookupEnv), cfg.settle())); err != nil {
				return flagerror.Invalid(err)
			}
			cfg.settings = settings(cmd.LocalFlags()) // those of clients have a token
			log, err := cfg.logger()
			if err != nil {
				return flagerror.Invalid(err)
			}
			return run(cmd.Context(), &cfg, version, log)
		},
	}
	cfg.flags(cmd.Flags())
	return cmd
}

// run creates a peer and runs it until ctx ends.
func run(ctx context.Context, cfg *Config, version string, log *slog.Logger) error {
	peerLog := log.With("peer", cfg.NodeID) // package cluster adds it itself
	end := &lastResort{exit: os.Exit, log: peerLog}
	defer end.stop() // after all the others
	hw := hardware.New(peerLog)
	set, err := providers.NewSet(hw.Factories(), cfg.Providers, log)
	if err != nil {
		return flagerror.Invalid(err)
	}
	if cfg.Dev {
		set = set.WithFallback("fake")
	}
	reg := prometheus.NewRegistry()
	reg.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	reg.MustRegister(buildInfo(version))
	hw.Measure(reg)
	if err := cluster.BridgeMetrics(reg); err != nil {
		return fmt.Errorf("bridge metrics: %w", err)
	}
	keys, err := secrets.Open(cfg.SecretsKeyFile, peerLog)
	if err != nil {
		return flagerror.Invalid(err)
	}
	state := fsm.New()
	clock := cluster.NewClock(func() time.Time { return state.View().Now() })
	store, err := cfg.tlsConfig.open(cfg.Insecure, cfg.NodeID, cfg.DataDir, clock, peerLog, reg)
	if err != nil {
		return flagerror.Invalid(err)
	}
	sign, err := cfg.peers.Signer(clock.Now)
	if err != nil {
		return flagerror.Invalid(err)
	}
	fetches, err := egress.New(cfg.DenyURLs)
	if err != nil {
		return flagerror.Invalid(fmt.Errorf("read --deny-urls: %w", err))
	}
	// Listen first: a port in use must fail before anything is written.
	grpcLn, err := listen(ctx, "grpc-addr", cfg.GRPCAddr)
	if err != nil {
		return err
	}
	defer func() { _ = grpcLn.Close() }()
	httpLn, err := listen(ctx, "http-addr", cfg.HTTPAddr)
	if err != nil {
		return err
	}
	defer func() { _ = httpLn.Close() }()
	bootLn, err := cfg.netbootConfig.listen(ctx)
	if err != nil {
		return err
	}

	limit := connlimit.OfProcess(connlimit.ForFiles, peerLog, reg)
	limited := limit.Listen
	old, closeArchive, err := cfg.archiveConfig.open(fetches.Transport())
	if err != nil {
		return flagerror.Invalid(err)
	}
	defer closeArchive()
	traces, err := cfg.tracing.Open(ctx, cfg.NodeID, version, peerLog)
	if err != nil {
		return err
	}
	defer traces.Close(peerLog) //nolint:contextcheck // the remaining spans are sent although ctx has ended
	p := &peer{cfg: cfg, log: peerLog}
	leaseLoad := func() (int, float64) { return 0, 0 } // there is no engine yet
	p.node, err = cluster.New(cluster.Config{
		NodeID:        cfg.NodeID,
		DataDir:       cfg.DataDir,
		LogStore:      cfg.LogStore,
		RaftAddr:      cfg.RaftAddr,
		GossipAddr:    cfg.GossipAddr,
		AdvertiseRaft: cfg.AdvertiseRaft, AdvertiseGossip: cfg.AdvertiseGossip,
		AdvertiseGRPC: cmp.Or(cfg.AdvertiseGRPC, grpcLn.Addr().String()),
		AdvertiseHTTP: cmp.Or(cfg.AdvertiseHTTP, httpLn.Addr().String()),
		Clock:         clock,
		TLS:           store, SignPeer: sign, GossipKeyFile: cfg.GossipKeyFile,
		LimitPeers: connlimit.OfPeers(store != nil, peerLog, reg),
		Join:       cfg.Join, BootstrapExpect: cfg.BootstrapExpect, AdmitManually: cfg.AdmitPeers == "manual",
		RaftMultiplier: cfg.RaftMultiplier, Genesis: genesis(),
		Version:           version,
		Logger:            log,
		Registerer:        reg,
		Tracer:            traces.Tracer(),
		DialOptions:       traces.Forwarded(),
		Leases:            func() (int, float64) { return leaseLoad() },
		BMCCalls:          hw.BMCCalls,
		BeforeHandover:    p.beforeHandover,
		LeaveOnStop:       cfg.LeaveOnStop,
		ForwardMetadata:   auth.Forward,
		SnapshotThreshold: cfg.RaftSnapshotThreshold,
		SnapshotInterval:  cfg.RaftSnapshotInterval,
		TrailingLogs:      cfg.RaftTrailingLogs,
		StallTimeout:      cfg.RaftStallTimeout,
	}, state)
	if err != nil {
		return err
	}
	resolver := secrets.NewResolver(state, keys)
	tasks := executor.New(executor.Config{
		Runs: runs.Config{
			Config: step.Config{StepDeadline: time.Duration(cfg.DefaultStepTimeoutSeconds) * time.Second,
				DenyURL: fetches.CheckURL},
			MaxActive: cfg.MaxActiveRuns,
			Logger:    peerLog,
			Tracer:    traces.Tracer(),
			Boundary:  boundaryHook()},
		Monitor: monitor.Config{Interval: time.Duration(cfg.ReconcileIntervalSeconds) * time.Second,
			HealthInterval: time.Duration(cfg.HealthIntervalSeconds) * time.Second,
			Calls:          cfg.PollCalls,
			Logger:         peerLog,
			Registerer:     reg},
		Leases:  lease.Config{Now: clock.Now, Logger: peerLog, Registerer: reg},
		Archive: cfg.archiveConfig.archiver(peerLog, reg),
		Webhooks: webhook.Config{Transport: fetches.Transport(), RefuseOpen: cfg.OpenWebhooks == "refuse",
			Logger: peerLog, Registerer: reg},
		Logger: peerLog,
	}, executor.Deps{Node: p.node, State: state, Providers: set, Secrets: resolver, Archive: old})
	p.exec, leaseLoad = tasks.Runs, tasks.Leases.Load
	retries := int32(cfg.DefaultStepMaxRetries)
	if retries == 0 {
		retries = -1 // none: the server takes zero for its default
	}
	doors := cfg.gate(peerLog, reg, clusterOf(store), p.node.Member, clock)
	doors.Transport = fetches.Transport()
	gate, relay, err := auth.ForNode(doors, p.node, state)
	if err != nil {
		return err
	}
	vault, err := cfg.secretsConfig.open(keys, p.node, state, gate, clock.Now, peerLog)
	if err != nil {
		return err
	}
	hw.Attach(resolver, tasks.Devices, state, tasks.Installs, clock.Now)
	gateway := lease.NewGateway(tasks.Leases, p.node, peerLog)
	files, done, err := openImages(images.Config{PeerID: cfg.NodeID, Transport: fetches.Transport(), Logger: peerLog,
		Registerer: reg}, cfg.DataDir, p.node, state)
	if err != nil {
		return err
	}
	defer done()
	srv := server.New(server.Config{Archive: old, Files: files, Now: clock.Now, ChooseDisk: diskrule.Recorded,
		Version: version, Logger: peerLog, Registerer: reg, Gatherer: reg, Gate: gate, Forwarder: p.node,
		Consoles: p.exec, Peers: p.node,
		PeerID: cfg.NodeID, Admin: p.node, Settings: cfg.settings, Leases: gateway, AutoDiscover: cfg.AutoDiscover,
		AutoDiscoverLimit: cfg.AutoDiscoverLimit, EnrollLimit: cfg.EnrollLimit,
		PlatformMarginPercent: cfg.PlatformMarginPercent, Keys: keys,
		RecordConsoles: cfg.RecordConsoles, ConsoleKeep: time.Duration(cfg.ConsoleKeepDays) * 24 * time.Hour,
		Note: vault.guard.Note, DenyURL: fetches.CheckURL, RefuseOpenWebhooks: cfg.OpenWebhooks == "refuse",
		DefaultStepTimeout: time.Duration(cfg.DefaultStepTimeoutSeconds) * time.Second, DefaultMaxRetries: retries,
		DefaultInstallTimeout: time.Duration(cfg.DefaultInstallTimeoutSeconds) * time.Second}, p.node, state, set)
	apiLn, creds := secured(store, limit, limited(grpcLn))
	api := grpc.NewServer(slices.Concat(srv.GRPCOptions(), creds, traces.Served())...)
	srv.Register(api)
	relay.Register(api)
	tasks.Leases.Register(api)
	files.Register(api)
	p.node.RegisterPeerService(api)

	peerLog.Info("peer is up", "version", version, "grpc", grpcLn.Addr().String(), "http", httpLn.Addr().String(),
		"raft", p.node.RaftAddr(), "gossip", p.node.GossipAddr(), "dashboard", dashboardURL(store != nil, httpLn.Addr()))
	g, gctx := errgroup.WithContext(ctx)
	web, stopWeb := context.WithCancel(context.WithoutCancel(ctx))
	defer stopWeb()
	g.Go(func() error {
		if err := api.Serve(apiLn); err != nil && !errors.Is(err, grpc.ErrServerStopped) {
			return fmt.Errorf("serve gRPC on %s: %w", grpcLn.Addr(), err)
		}
		return nil
	})
	past := history.New(history.Config{Dir: cfg.DataDir, Logger: peerLog}, p.node, state)
	g.Go(func() error { return past.Run(web) })
	var local grpc.ClientConnInterface // the services of this process, as the HTTP APIs call them
	own := func(_ *auth.Mux, rpc grpc.ClientConnInterface) { local = rpc }
	//nolint:contextcheck // a request has its own context
	site := srv.HTTPServer(traces.Handler(srv.HTTPHandler(append(apis(srv, cfg.netbootConfig.api(cfg.Insecure), past,
		secrets.NewSessions(keys, clock.Now), peerLog), vault.routes, files.Routes, own)...)))
	machines := machinesOnly(site.Handler)
	site.Handler = cfg.netbootConfig.notMachines(site.Handler)
	webLn := limited(httpLn)
	if store != nil {
		webLn, site.TLSConfig = peertls.Listen(webLn), store.HTTP()
		if err := limit.HTTP2(site); err != nil {
			return fmt.Errorf("configure HTTP/2: %w", err)
		}
	}
	g.Go(func() error { return serveHTTP(web, site, webLn) })
	g.Go(func() error { return cfg.netbootConfig.serve(web, srv.HTTPServer(machines), limited(bootLn)) })
	g.Go(func() error { return cfg.netbootConfig.serveFirmware(web, local, peerLog) })
	g.Go(func() error {
		<-gctx.Done()
		srv.Drain() // watchers go on with another peer while this one hands over
		return nil
	})
	g.Go(func() error { return heap.Run(web) })
	g.Go(func() error { return gate.Denials().Run(web) })
	g.Go(func() error { return gateway.Run(web) })
	g.Go(func() error { return files.Run(web) })
	g.Go(func() error { return keys.Run(web) })
	g.Go(func() error { return hw.Serve(web) })
	g.Go(func() error { return newPulse(peerLog, func() string { return p.line(state) }).run(gctx) })
	others := append([]cluster.LeaderTask{hw, waves.New(p.node, state, srv, peerLog)}, vault.tasks...)
	if !cfg.Insecure {
		others = append(others, bootstrap.New(p.node, os.Stdout))
	}
	g.Go(func() error {
		// The API stays up while the node hands over its leadership: calls in the meantime are
		// forwarded.
		leading, stop := context.WithCancelCause(context.WithoutCancel(gctx))
		defer stop(nil)
		defer context.AfterFunc(gctx, func() {
			if ctx.Err() != nil {
				p.beforeStop(leading)
			}
			stop(context.Cause(gctx))
		})()
		err := p.node.Run(leading, tasks.All(others...)...)
		end.after(err)
		stopWeb()
		if ctx.Err() == nil {
			api.Stop() // not gracefully, because the peer cannot continue
			return err
		}
		stopGracefully(api)
		return err
	})
	err = g.Wait()
	if err == nil {
		peerLog.Info("peer has stopped")
	}
	return err
}

// gate returns the authentication of callers.
func (c *Config) gate(
	log *slog.Logger, reg prometheus.Registerer, name string, member func(context.Context, *peertls.Caller) error,
	clock *cluster.Clock,
) auth.Config {
	perSecond := c.RateLimitPerSecond
	if perSecond == 0 {
		perSecond = -1 // no limit: the gate takes zero for its default
	}
	return auth.Config{Insecure: c.Insecure, Cluster: name, PeerID: c.NodeID, Member: member, Issuers: c.OIDCIssuers,
		RatePerSecond: perSecond, Now: clock.Now, Doubtful: clock.Doubtful, Logger: log, Registerer: reg}
}

// genesis returns the initial state of a new cluster.
func genesis() []*internalv1.Command {
	var cmds []*internalv1.Command
	for _, p := range fsm.DefaultPlans() {
		cmds = append(cmds, &internalv1.Command{Principal: "system", Op: &internalv1.Command_CreatePlan{
			CreatePlan: &internalv1.CreatePlan{Plan: p, BuiltIn: true}}})
	}
	return cmds
}

// buildInfo exports the build as a metric. Alerts on mixed versions and dashboards read it.
func buildInfo(version string) prometheus.Collector {
	g := prometheus.NewGauge(prometheus.GaugeOpts{Name: "holdfast_build_info",
		Help:        "1, with the version of this peer and the Go that it was built with.",
		ConstLabels: prometheus.Labels{"version": version, "goversion": runtime.Version()}})
	g.Set(1)
	return g
}
