package server

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/reflection"

	"github.com/holdfast-metal/holdfast/internal/secrets"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
	"github.com/holdfast-metal/holdfast/providers"
	"github.com/holdfast-metal/holdfast/server/auth"
	"github.com/holdfast-metal/holdfast/server/inproc"
	"github.com/holdfast-metal/holdfast/server/internal/access"
	"github.com/holdfast-metal/holdfast/server/internal/console"
	"github.com/holdfast-metal/holdfast/server/internal/diagnose"
	"github.com/holdfast-metal/holdfast/server/internal/edge"
	"github.com/holdfast-metal/holdfast/server/internal/events"
	"github.com/holdfast-metal/holdfast/server/internal/fleet"
	"github.com/holdfast-metal/holdfast/server/internal/images"
	"github.com/holdfast-metal/holdfast/server/internal/installs"
	"github.com/holdfast-metal/holdfast/server/internal/operator"
	"github.com/holdfast-metal/holdfast/server/internal/plans"
	"github.com/holdfast-metal/holdfast/server/internal/registry"
	"github.com/holdfast-metal/holdfast/server/internal/runs"
	"github.com/holdfast-metal/holdfast/server/internal/startrun"
	"github.com/holdfast-metal/holdfast/server/internal/statemetrics"
)

// Config configures a Server. The zero value works.
type Config struct {
	// Version is the response of GET /version; default "dev".
	Version string
	// Logger defaults to a logger that discards everything.
	Logger *slog.Logger
	// Registerer registers the server's metrics, and Gatherer is the source of GET
	// /metrics. The default is a registry of the server's own.
	Registerer prometheus.Registerer
	Gatherer   prometheus.Gatherer
	// DefaultStepTimeout and DefaultMaxRetries apply to steps that do not set them. The
	// defaults are 10 minutes and 2 (negative: no retry).
	DefaultStepTimeout time.Duration
	DefaultMaxRetries  int32
	// DefaultInstallTimeout is the default timeout of steps that install; default an
	// hour.
	DefaultInstallTimeout time.Duration
	// CancelWait is how long CancelRun waits for the run to end, so that it usually
	// returns the run as CANCELED. Default 2 s; negative: do not wait.
	CancelWait time.Duration
	// CallTimeout is the deadline of unary calls without one; default 30 s.
	CallTimeout time.Duration
	// Gate authenticates and authorizes callers; default auth.Open, where every caller is
	// an anonymous admin.
	Gate *auth.Gate
	// AutoDiscover creates machines for reports from unknown MAC addresses. They await
	// approval.
	AutoDiscover bool
	// AutoDiscoverLimit is how many machines may await approval before no more are
	// created; 0: no limit.
	AutoDiscoverLimit uint32
	// PlatformMarginPercent is returned to marketplace providers that register.
	PlatformMarginPercent float64
	// Leases renews leases; without it heartbeats are UNAVAILABLE.
	Leases registry.Leases
	// Forwarder sends calls to the leader that only the leader can serve. By default
	// there is none, as in a cluster of one peer.
	Forwarder Forwarder
	// Consoles is the set of consoles that are open while this peer leads, and Peers
	// connects to the leader; without them no console can be attached. PeerID is this
	// peer's id.
	Consoles console.Consoles
	Peers    console.Peers
	PeerID   string
	// Settings is this peer's configuration without secrets, for debugging.
	Settings string
	// Keeper administers the cluster: snapshots, membership, leadership. Without one
	// those calls fail.
	Keeper operator.Keeper
	// ChooseDisk returns the disk that a rule of RepaveImage selects, according to the
	// inventory of a machine. If sure is true, the installer would fail with the same
	// error; otherwise the inventory is not sufficient. With a nil inventory only the
	// rule itself is checked, as for plans. By default only the installer checks the
	// rule.
	ChooseDisk func(rule string, h *holdfastv1.HardwareInventory) (disk string, sure bool, err error)
	// Keys encrypt secrets; without them no secret can be stored.
	Keys *secrets.Keyring
	// Files stores the files of images; without it no file can be uploaded.
	Files images.Files
	// Archive contains the steps and logs of old runs; without it this peer cannot read
	// them.
	Archive runs.Archive
	// Note returns a remark about this peer for its status. It may be nil, or return "".
	Note func() string
}

// Forwarder runs between the authentication and the authorization of a call
// (*cluster.Node).
type Forwarder interface {
	UnaryInterceptor() grpc.UnaryServerInterceptor
	StreamInterceptor() grpc.StreamServerInterceptor
}

// Node is the peer of a server: it commits commands and serves consistent reads.
type Node interface {
	edge.Node
	Membership
}

// Membership is the status of the peer and its cluster. Its methods must not wait for a
// quorum.
type Membership interface {
	Leader() (id string, self, ok bool)
	Role() string // leader, follower, candidate
	Votes() error // why the peer does not count toward a quorum yet, or nil
	Status(ctx context.Context) *holdfastv1.ClusterStatus
}

// State is this peer's own copy of the replicated state (*fsm.FSM).
type State interface {
	edge.State
	HaltError() error // not nil once the state machine has halted permanently
}

var errNoLeader = errors.New("no leader is known")

// Server serves the public API on one peer.
type Server struct {
	*edge.Peer
	cfg        Config
	node       Node
	state      State
	providers  *providers.Set
	starts     *startrun.Preparer
	runs       *runs.Service
	local      *inproc.Server // serves the HTTP APIs
	services   *registry.Services
	heartbeats *registry.Heartbeats
	metrics    *callMetrics
	draining   chan struct{}
	drain      sync.Once
}

// New returns a server. It starts nothing: Register it with a gRPC server that uses its
// interceptors, and serve its HTTPHandler.
func New(cfg Config, node Node, state State, set *providers.Set) *Server {
	if cfg.Version == "" {
		cfg.Version = "dev"
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Registerer == nil || cfg.Gatherer == nil {
		own := prometheus.NewRegistry()
		cfg.Registerer, cfg.Gatherer = own, own
	}
	cfg.DefaultStepTimeout = orDefault(cfg.DefaultStepTimeout, 10*time.Minute)
	cfg.DefaultInstallTimeout = orDefault(cfg.DefaultInstallTimeout, time.Hour)
	cfg.DefaultMaxRetries = max(0, orDefault(cfg.DefaultMaxRetries, 2))
	cfg.CancelWait = max(0, orDefault(cfg.CancelWait, 2*time.Second))
	cfg.CallTimeout = orDefault(cfg.CallTimeout, 30*time.Second)
	if cfg.Note == nil {
		cfg.Note = func() string { return "" }
	}
	if cfg.Gate == nil {
		cfg.Gate = auth.Open()
	}
	s := &Server{
		cfg: cfg, node: node, state: state, providers: set,
		metrics: newCallMetrics(cfg.Registerer), draining: make(chan struct{}),
	}
	s.Peer = &edge.Peer{Node: node, State: state, Log: cfg.Logger, Draining: s.draining}
	s.services, s.heartbeats = registry.NewServices(s.Peer), registry.NewHeartbeats(s.Peer, cfg.Leases)
	s.starts = startrun.New(s.Peer, startrun.Config{
		StepTimeout: cfg.DefaultStepTimeout, InstallTimeout: cfg.DefaultInstallTimeout, MaxRetries: cfg.DefaultMaxRetries,
	}, set)
	s.runs = runs.New(s.Peer, runs.Config{CancelWait: cfg.CancelWait, Archive: cfg.Archive}, s.starts)
	s.local = inproc.New(s.UnaryInterceptors()...)
	s.Register(s.local)
	cfg.Registerer.MustRegister(statemetrics.Collectors(state)...)
	return s
}

func orDefault[T comparable](v, otherwise T) T {
	var zero T
	if v == zero {
		return otherwise
	}
	return v
}

// Register adds the services of the public API, gRPC health and, if the registrar
// supports it, reflection. The gRPC server must use UnaryInterceptors and
// StreamInterceptors, which convert errors to statuses.
func (s *Server) Register(r grpc.ServiceRegistrar) {
	holdfastv1.RegisterMachineServiceServer(r, fleet.NewMachines(s.Peer))
	holdfastv1.RegisterPlanServiceServer(r, plans.New(s.Peer, plans.Config{
		Providers: s.providers, ChooseDisk: s.cfg.ChooseDisk, Files: s.cfg.Files,
	}))
	holdfastv1.RegisterRunServiceServer(r, s.runs)
	holdfastv1.RegisterConsoleServiceServer(r, console.New(s.Peer, console.Config{
		PeerID: s.cfg.PeerID, Leader: s.node.Leader, Consoles: s.cfg.Consoles, Peers: s.cfg.Peers,
	}))
	holdfastv1.RegisterClusterServiceServer(r, diagnose.NewCluster(s.Peer, diagnose.Config{
		PeerID: s.cfg.PeerID, Version: s.cfg.Version, Settings: s.cfg.Settings, Gatherer: s.cfg.Gatherer,
		Ready: s.ready, Note: s.cfg.Note,
	}, s.node))
	holdfastv1.RegisterOperatorServiceServer(r, operator.New(s.Peer, operator.Config{
		PeerID: s.cfg.PeerID, Version: s.cfg.Version, Keeper: s.cfg.Keeper, Peers: s.cfg.Peers, Keys: s.cfg.Keys,
		Notes: holdfastv1.NewOperatorServiceClient(s.local), Status: s.node.Status,
	}))
	holdfastv1.RegisterAccessServiceServer(r, access.NewTokens(s.Peer))
	holdfastv1.RegisterAuditServiceServer(r, access.NewAudit(s.Peer))
	holdfastv1.RegisterSecretServiceServer(r, access.NewSecrets(s.Peer, s.cfg.Keys))
	holdfastv1.RegisterImageServiceServer(r, images.New(s.Peer, s.cfg.Files))
	holdfastv1.RegisterHeartbeatServiceServer(r, s.heartbeats)
	holdfastv1.RegisterAgentServiceServer(r, registry.NewAgents(s.Peer))
	holdfastv1.RegisterNodeServiceServer(r, fleet.NewNodes(s.Peer, s.discovery()))
	holdfastv1.RegisterInstallServiceServer(r, installs.New(s.Peer, s.discovery(), s.starts, s.cfg.Gate))
	holdfastv1.RegisterPoolServiceServer(r, registry.NewPools(s.Peer, s.cfg.PlatformMarginPercent))
	holdfastv1.RegisterRegistryServiceServer(r, s.services)
	holdfastv1.RegisterEventServiceServer(r, events.New(s.Peer))
	holdfastv1.RegisterWebhookServiceServer(r, events.NewWebhooks(s.Peer))
	internalv1.RegisterStageServiceServer(r, operator.NewStage(s.Peer))
	grpc_health_v1.RegisterHealthServer(r, &healthService{Server: s})
	if rs, ok := r.(reflection.GRPCServer); ok {
		reflection.Register(rs)
	}
}

// Drain ends all streams with UNAVAILABLE, so that clients resume them at another peer,
// and makes this peer unready. Call it before the gRPC server's GracefulStop, which waits
// for streams.
func (s *Server) Drain() { s.drain.Do(func() { close(s.draining) }) }

// ready returns why the peer cannot serve, or nil if it can.
func (s *Server) ready() error {
	select {
	case <-s.Draining:
		return edge.ErrDraining
	default:
	}
	if err := s.state.HaltError(); err != nil {
		return err
	}
	if _, _, ok := s.node.Leader(); !ok {
		return errNoLeader
	}
	// Rolling restarts wait for readiness, so ready must imply that the peer votes.
	return s.node.Votes()
}

// InProcess returns the in-process server of the HTTP APIs. A service with an HTTP API
// must be registered both with it and with the gRPC server.
func (s *Server) InProcess() *inproc.Server { return s.local }

// discovery returns the configuration of the discovery of machines.
func (s *Server) discovery() fleet.Discovery {
	return fleet.Discovery{On: s.cfg.AutoDiscover, Limit: s.cfg.AutoDiscoverLimit}
}
