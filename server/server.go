package server

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/reflection"

	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/internal/secrets"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
	"github.com/holdfast-metal/holdfast/providers"
	"github.com/holdfast-metal/holdfast/server/auth"
	"github.com/holdfast-metal/holdfast/server/inproc"
)

// Config is what a Server can be told. The zero value works.
type Config struct {
	// Version is answered by GET /version; default "dev".
	Version string
	// Logger defaults to none.
	Logger *slog.Logger
	// Registerer gets the server's metrics, Gatherer is what GET /metrics shows; default a registry
	// of the server's own.
	Registerer prometheus.Registerer
	Gatherer   prometheus.Gatherer
	// DefaultStepTimeout and DefaultMaxRetries are for steps that leave them unset; default 10
	// minutes and 2 (negative: no retry).
	DefaultStepTimeout time.Duration
	DefaultMaxRetries  int32
	// DefaultInstallTimeout is the same for steps that install; default an hour.
	DefaultInstallTimeout time.Duration
	// CancelWait is how long CancelRun waits for the run to end, so that its answer usually shows
	// it CANCELED; default 2 s, negative: not at all.
	CancelWait time.Duration
	// CallTimeout bounds unary calls that come without a deadline; default 30 s.
	CallTimeout time.Duration
	// Gate says who callers are and what they may do; default: everybody is anonymous, an admin.
	Gate *auth.Gate
	// AutoDiscover makes machines of reports from MAC addresses that nobody knows; they await
	// approval.
	AutoDiscover bool
	// AutoDiscoverLimit is how many machines may await approval before no more are made; 0: no
	// limit.
	AutoDiscoverLimit uint32
	// PlatformMarginPercent is told to marketplace providers that register.
	PlatformMarginPercent float64
	// Leases takes heartbeats; without it they are UNAVAILABLE.
	Leases Leases
	// Forwarder lets this peer take calls that only the leader can serve; default none, as in a
	// peer alone.
	Forwarder Forwarder
	// Consoles holds consoles while this peer leads, and Peers leads to the leader; without them
	// nobody can attach. PeerID is this peer's id.
	Consoles Consoles
	Peers    Peers
	PeerID   string
	// Settings is this peer's configuration for those who look into trouble: it holds no secret.
	Settings string
	// Keeper keeps the cluster: snapshots, the membership, who leads. Without one none of it can be
	// asked for.
	Keeper Keeper
	// ChooseDisk says which disk a rule of RepaveImage means, by the inventory of the machine. An
	// error is sure when the installer would say the same; otherwise it is what cannot be told. Of
	// no inventory only the rule itself is judged: plans are refused by that. Default: nobody tells
	// before the installer runs.
	ChooseDisk func(rule string, h *holdfastv1.HardwareInventory) (disk string, sure bool, err error)
	// Keys seal secrets; without them, none can be stored.
	Keys *secrets.Keyring
	// Files keeps the files of images; without them, none can be uploaded.
	Files Files
	// Archive has the steps and logs of old runs; without it they cannot be read here.
	Archive Archive
	// Note says what else people should know of this peer, for its status; nil or empty: nothing.
	Note func() string
}

// Forwarder stands between who a caller is and what they may do (*cluster.Node).
type Forwarder interface {
	UnaryInterceptor() grpc.UnaryServerInterceptor
	StreamInterceptor() grpc.StreamServerInterceptor
}

// Node is the peer as the server sees it: where commands are committed and reads are made safe.
type Node interface {
	Proposer
	Membership
}

// Proposer commits commands and serves reads (cluster.Node does).
type Proposer interface {
	// Apply commits a command. The error is an *fsm.Error when the state refused it, or a
	// *cluster.OutcomeError.
	Apply(ctx context.Context, cmd *internalv1.Command) (fsm.Result, error)
	// View returns a state that is as fresh as the call asks for: linearizable unless it says
	// otherwise.
	View(ctx context.Context) (*fsm.View, error)
}

// Membership tells how the peer and its cluster are doing. It must not wait for a quorum.
type Membership interface {
	Leader() (id string, self, ok bool)
	Role() string // leader, follower, candidate
	Votes() error // why the peer does not count yet should another be lost, or nil
	Status(ctx context.Context) *holdfastv1.ClusterStatus
}

// State is this peer's own copy of the replicated state (*fsm.FSM).
type State interface {
	View() *fsm.View
	Changed() <-chan struct{} // closed at the next change
	HaltError() error         // not nil once the state will never move again
}

// Server serves the public API on one peer.
type Server struct {
	cfg       Config
	log       *slog.Logger
	node      Node
	state     State
	providers *providers.Set
	tail      *tail
	local     *inproc.Server // the way of the HTTP APIs to the services
	metrics   *callMetrics
	draining  chan struct{}
	drain     sync.Once
}

// New returns a server. It starts nothing: Register it with a gRPC server that has its
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
	if cfg.Gate == nil {
		cfg.Gate = auth.Open()
	}
	s := &Server{
		cfg: cfg, log: cfg.Logger, node: node, state: state, providers: set,
		metrics: newCallMetrics(cfg.Registerer), draining: make(chan struct{}),
	}
	s.tail = newTail(state, s.draining)
	s.local = inproc.New(s.UnaryInterceptors()...)
	s.Register(s.local)
	cfg.Registerer.MustRegister(newStateCollector(state), newWebhookCollector(state))
	return s
}

func orDefault[T comparable](v, otherwise T) T {
	var zero T
	if v == zero {
		return otherwise
	}
	return v
}

// Register adds the services of the public API, gRPC health and, where the registrar can,
// reflection. Their errors are worded by the interceptors: install UnaryInterceptors and
// StreamInterceptors with them.
func (s *Server) Register(r grpc.ServiceRegistrar) {
	holdfastv1.RegisterMachineServiceServer(r, &machineService{Server: s})
	holdfastv1.RegisterPlanServiceServer(r, &planService{Server: s})
	holdfastv1.RegisterRunServiceServer(r, &runService{Server: s})
	holdfastv1.RegisterConsoleServiceServer(r, &consoleService{Server: s})
	holdfastv1.RegisterClusterServiceServer(r, &clusterService{Server: s})
	holdfastv1.RegisterOperatorServiceServer(r, &operatorService{Server: s})
	holdfastv1.RegisterAccessServiceServer(r, &accessService{Server: s})
	holdfastv1.RegisterAuditServiceServer(r, &auditService{Server: s})
	holdfastv1.RegisterSecretServiceServer(r, &secretService{Server: s})
	holdfastv1.RegisterImageServiceServer(r, &imageService{Server: s})
	holdfastv1.RegisterHeartbeatServiceServer(r, &heartbeatService{Server: s})
	holdfastv1.RegisterAgentServiceServer(r, &agentService{Server: s})
	holdfastv1.RegisterNodeServiceServer(r, &nodeService{Server: s})
	holdfastv1.RegisterInstallServiceServer(r, &installService{Server: s})
	holdfastv1.RegisterPoolServiceServer(r, &poolService{Server: s})
	holdfastv1.RegisterRegistryServiceServer(r, &registryService{Server: s})
	holdfastv1.RegisterEventServiceServer(r, &eventService{Server: s})
	holdfastv1.RegisterWebhookServiceServer(r, &webhookService{Server: s})
	internalv1.RegisterStageServiceServer(r, &stageService{Server: s})
	grpc_health_v1.RegisterHealthServer(r, &healthService{Server: s})
	if rs, ok := r.(reflection.GRPCServer); ok {
		reflection.Register(rs)
	}
}

// Drain ends all streams with UNAVAILABLE, so that clients go on with another peer, and makes the
// peer unready. Call it before the gRPC server's GracefulStop, which waits for streams.
func (s *Server) Drain() { s.drain.Do(func() { close(s.draining) }) }

// ready reports why the peer cannot serve, or nil.
func (s *Server) ready() error {
	select {
	case <-s.draining:
		return errDraining
	default:
	}
	if err := s.state.HaltError(); err != nil {
		return err
	}
	if _, _, ok := s.node.Leader(); !ok {
		return errNoLeader
	}
	// Who restarts peers one by one goes on when the last one is ready: that must mean that it
	// counts.
	return s.node.Votes()
}

// InProcess takes services and calls of this process: what is registered with the gRPC server and
// has an HTTP API is registered here too.
func (s *Server) InProcess() *inproc.Server { return s.local }

// command starts a command on behalf of the caller.
func (s *Server) command(ctx context.Context) *internalv1.Command {
	return auth.Command(ctx)
}
