package server

import (
	"context"
	"sync"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
	"github.com/holdfast-metal/holdfast/providers"
	"github.com/holdfast-metal/holdfast/server/inproc"
	"github.com/holdfast-metal/holdfast/server/internal/edge"
	"github.com/holdfast-metal/holdfast/server/internal/registry"
	"github.com/holdfast-metal/holdfast/server/internal/runs"
	"github.com/holdfast-metal/holdfast/server/internal/startrun"
	"github.com/holdfast-metal/holdfast/server/internal/statemetrics"
)

// Cluster is the peer of a server: it commits commands and serves consistent reads.
type Cluster interface {
	edge.Cluster
	Membership
}

// Membership is the status of the peer and its cluster. Its methods must not wait for a
// quorum.
type Membership interface {
	Leader() (id string, self, ok bool)
	Role() string     // leader, follower, candidate
	Readiness() error // the reason if the peer has no leader, does not vote yet or is stopping, or nil
	Status(ctx context.Context) *holdfastv1.ClusterStatus
}

// State is this peer's own copy of the replicated state (*fsm.FSM).
type State interface {
	edge.State
	HaltError() error // not nil once the state machine has halted permanently
}

// Server serves the public API on one peer.
type Server struct {
	cfg       Config
	peer      *edge.Peer
	node      Cluster
	state     State
	providers *providers.Set
	local     *inproc.Server // serves the HTTP APIs
	metrics   *callMetrics
	draining  chan struct{}
	drain     sync.Once

	// The services that this process also calls without gRPC.
	runs       *runs.Service
	services   *registry.Services
	heartbeats *registry.Heartbeats
	starts     *startrun.Preparer
}

// New returns a server. It starts nothing: Register it with a gRPC server that has its
// GRPCOptions, and serve its HTTPHandler.
func New(cfg Config, node Cluster, state State, set *providers.Set) *Server {
	cfg = withDefaults(cfg)
	s := &Server{
		cfg: cfg, node: node, state: state, providers: set,
		metrics: newCallMetrics(cfg.Registerer), draining: make(chan struct{}),
	}
	s.peer = &edge.Peer{Cluster: node, State: state, Log: cfg.Logger, Draining: s.draining, DenyURL: cfg.DenyURL,
		Now: cfg.Now}
	s.services, s.heartbeats = registry.NewServices(s.peer), registry.NewHeartbeats(s.peer, cfg.Leases)
	s.starts = startrun.New(s.peer, startrun.Config{
		StepTimeout: cfg.DefaultStepTimeout, InstallTimeout: cfg.DefaultInstallTimeout, MaxRetries: cfg.DefaultMaxRetries,
	}, set)
	s.runs = runs.New(s.peer, runs.Config{CancelWait: cfg.CancelWait, Archive: cfg.Archive}, s.starts)
	s.local = inproc.New(s.serveUnary, s.serveStream)
	s.Register(s.local)
	cfg.Registerer.MustRegister(statemetrics.Collectors(state)...)
	return s
}

// Drain ends all streams with UNAVAILABLE, so that clients resume them at another peer,
// and makes this peer unready. Call it before the gRPC server's GracefulStop, which waits
// for streams.
func (s *Server) Drain() { s.drain.Do(func() { close(s.draining) }) }

// ready returns the reason if the peer cannot serve, or nil.
func (s *Server) ready() error {
	select {
	case <-s.draining:
		return edge.ErrDraining
	default:
	}
	if err := s.state.HaltError(); err != nil {
		return err
	}
	// Rolling restarts wait for readiness, so ready must imply that the peer votes.
	return s.node.Readiness()
}

// PrepareStart completes a command that starts a run, as StartRun does. The error is an *fsm.Error
// if no state would allow the start.
func (s *Server) PrepareStart(ctx context.Context, start *internalv1.StartRun) error {
	return s.starts.Prepare(ctx, start)
}

// InProcess returns the in-process server of the HTTP APIs. A service with an HTTP API
// must be registered both with it and with the gRPC server.
func (s *Server) InProcess() *inproc.Server { return s.local }
