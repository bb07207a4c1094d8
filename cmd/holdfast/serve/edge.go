package serve

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"

	"github.com/holdfast-metal/holdfast/cluster/clock"
	"github.com/holdfast-metal/holdfast/cluster/peertls"
	"github.com/holdfast-metal/holdfast/executor"
	"github.com/holdfast-metal/holdfast/executor/lease"
	"github.com/holdfast-metal/holdfast/internal/diskrule"
	"github.com/holdfast-metal/holdfast/internal/images"
	"github.com/holdfast-metal/holdfast/internal/secrets"
	"github.com/holdfast-metal/holdfast/server"
	"github.com/holdfast-metal/holdfast/server/auth"
	"github.com/holdfast-metal/holdfast/server/ui/history"
)

// edge contains the parts of a peer that answer callers.
type edge struct {
	gate    *auth.Gate
	vault   *vault
	files   *images.Depot
	gateway *lease.Gateway
	past    *history.History
	srv     *server.Server

	api        *grpc.Server
	site, boot *http.Server // boot is for machines that boot from the network

	apiLn, siteLn, bootLn net.Listener
}

func newEdge(o *opened, m *machines, t *executor.Tasks) (_ *edge, err error) {
	e := &edge{gateway: lease.NewGateway(t.Leases, o.node, o.log),
		past: history.New(history.Config{Dir: o.cfg.DataDir, Logger: o.log}, o.node, o.state)}
	doors := o.cfg.gate(o.log, o.reg, clusterOf(o.tls), o.node.Member, o.clock)
	doors.Transport = o.fetches.Transport()
	gate, audit, err := auth.ForNode(doors, o.node, o.state)
	if err != nil {
		return nil, err
	}
	e.gate = gate
	if e.vault, err = o.cfg.secretsConfig.open(o.keys, o.node, o.state, gate, o.clock.Now, o.log); err != nil {
		return nil, err
	}
	files, done, err := images.Open(images.Config{PeerID: o.cfg.PeerID, Transport: o.fetches.Transport(), Logger: o.log,
		Registerer: o.reg}, o.cfg.DataDir, o.node, o.state)
	if err != nil {
		return nil, err
	}
	o.closing(done)
	e.files = files
	e.srv = server.New(e.server(o, t), o.node, o.state, m.providers)
	var creds []grpc.ServerOption
	e.apiLn, creds = secured(o.tls, o.limit, o.limit.Listen(o.grpc))
	e.api = grpc.NewServer(slices.Concat(e.srv.GRPCOptions(), creds, o.traces.Served())...)
	e.srv.Register(e.api)
	audit.Register(e.api)
	t.Leases.Register(e.api)
	files.Register(e.api)
	o.node.RegisterPeerService(e.api)
	return e, e.web(o)
}

// server returns the configuration of the server.
func (e *edge) server(o *opened, t *executor.Tasks) server.Config {
	cfg := o.cfg
	retries := int32(cfg.DefaultStepMaxRetries)
	if retries == 0 {
		retries = -1 // none: the server takes zero for its default
	}
	return server.Config{Archive: o.archive, Files: e.files, Now: o.clock.Now, ChooseDisk: diskrule.Recorded,
		Version: o.version, Logger: o.log, Registerer: o.reg, Gatherer: o.reg, Gate: e.gate, Forwarder: o.node,
		Consoles: t.Runs, Peers: o.node,
		PeerID: cfg.PeerID, Admin: o.node, Settings: cfg.settings, Leases: e.gateway, AutoDiscover: cfg.AutoDiscover,
		AutoDiscoverLimit: cfg.AutoDiscoverLimit, EnrollLimit: cfg.EnrollLimit,
		PlatformMarginPercent: cfg.PlatformMarginPercent, Keys: o.keys,
		RecordConsoles: cfg.RecordConsoles, ConsoleKeep: time.Duration(cfg.ConsoleKeepDays) * 24 * time.Hour,
		Note: e.vault.guard.Note, DenyURL: o.fetches.CheckURL, RefuseOpenWebhooks: cfg.OpenWebhooks == "refuse",
		DefaultStepTimeout: time.Duration(cfg.DefaultStepTimeoutSeconds) * time.Second, DefaultMaxRetries: retries,
		DefaultInstallTimeout: time.Duration(cfg.DefaultInstallTimeoutSeconds) * time.Second}
}

// web makes the HTTP servers.
func (e *edge) web(o *opened) error {
	site := e.srv.HTTPServer(o.traces.Handler(e.srv.HTTPHandler(append(apis(e.srv, o.cfg.netbootConfig.api(o.cfg.Insecure),
		e.past, secrets.NewSessions(o.keys, o.clock.Now), o.log), e.vault.routes, e.files.Routes)...)))
	e.boot, e.bootLn = e.srv.HTTPServer(machinesOnly(site.Handler)), o.limit.Listen(o.boot)
	site.Handler = o.cfg.netbootConfig.notMachines(site.Handler)
	e.site, e.siteLn = site, o.limit.Listen(o.http)
	if o.tls == nil {
		return nil
	}
	e.siteLn, site.TLSConfig = peertls.Listen(e.siteLn), o.tls.HTTP()
	if err := o.limit.HTTP2(site); err != nil {
		return fmt.Errorf("configure HTTP/2: %w", err)
	}
	return nil
}

// gate returns the authentication of callers.
func (c *Config) gate(
	log *slog.Logger, reg prometheus.Registerer, name string, member func(context.Context, *peertls.Caller) error,
	clock *clock.Clock,
) auth.Config {
	perSecond := c.RateLimitPerSecond
	if perSecond == 0 {
		perSecond = -1 // no limit: the gate takes zero for its default
	}
	return auth.Config{Insecure: c.Insecure, Cluster: name, PeerID: c.PeerID, Member: member, Issuers: c.OIDCIssuers,
		RatePerSecond: perSecond, Now: clock.Now, Doubtful: clock.Doubtful, Logger: log, Registerer: reg}
}
