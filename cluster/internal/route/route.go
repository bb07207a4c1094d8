// Package route decides who answers a call, and why nobody can: this peer, from a state that is new
// enough, or the leader. It must not know what the calls do, nor commit anything.
package route

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/holdfast-metal/holdfast/cluster/internal/peerauth"
	"github.com/holdfast-metal/holdfast/cluster/internal/read"
	"github.com/holdfast-metal/holdfast/cluster/internal/wait"
)

// Conn is a connection to another peer.
type Conn interface {
	Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error
	ResetConnectBackoff()
}

// Config holds what the routes depend on.
type Config struct {
	Self string
	// Conn returns the connection to a peer.
	Conn func(id string) (Conn, error)
	// ForwardMetadata changes the metadata of a call before it is forwarded. It may be nil.
	ForwardMetadata func(ctx context.Context, md metadata.MD)

	// Leader returns the leader that this peer knows, and whether it is this peer.
	Leader func() (id string, self, ok bool)
	// LastContact returns the milliseconds since the last contact with the leader: 0 on it, -1 for
	// never.
	LastContact func() int64
	// Leaderless returns since when no leader has been known, or nil.
	Leaderless func() *time.Time
	// Why returns the reason why the leader, which may be unknown, could not be asked.
	Why func(leader string) string
	// Changed fires when the leader or its readiness changes.
	Changed *wait.Signal
	// Before returns an index that was applied by a time.
	Before func(time.Time) uint64

	// Read counts a read by where it was served, and Forwarded a forwarded call by its result.
	Read      func(served string)
	Forwarded func(result string)

	Scale  func(time.Duration) time.Duration
	Logger *slog.Logger
}

// Router forwards calls to the peer that serves them. Its methods are interceptors.
type Router struct {
	cfg     Config
	reader  *read.Reader
	guard   *peerauth.Guard
	applied func() uint64

	methods methods
	last    atomic.Pointer[header] // of the last answer
}

// New returns a router. applied returns the index of this peer's state.
func New(cfg Config, r *read.Reader, g *peerauth.Guard, applied func() uint64) *Router {
	return &Router{cfg: cfg, reader: r, guard: g, applied: applied}
}

// Results returns the results of forwarded calls, as they are counted.
func Results() []string { return []string{"answered", "not_applied", "unknown"} }

func (rt *Router) forwarded(kind class) { rt.cfg.Forwarded(Results()[kind]) }

// InterceptUnary is the interceptor with which any peer accepts any unary call. Calls that change
// something run on the leader. Reads run on this peer once its state is as new as the call requires
// (metadata holdfast-consistency and holdfast-min-index), or on the leader if this peer is
// behind. Every answer carries the index, the leader and the last contact with it
// (docs/concepts.md). Health and reflection pass unchanged. Internal calls are accepted
// only from peers. ClusterService always answers for the peer that received the call.
//
// Calls are answered before the caller's deadline, if need be with UNAVAILABLE, an
// ErrorInfo and a text that names the cause.
func (rt *Router) InterceptUnary(
	ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler,
) (reply any, err error) {
	m := rt.methods.get(info.FullMethod)
	if m == nil {
		if err := rt.guard.CheckPeer(ctx, info.FullMethod); err != nil {
			return nil, err
		}
		return next(ctx, req)
	}
	ctx, hopped := rt.guard.Trusted(ctx)
	in, cancel := inTime(ctx)
	defer cancel()
	c := &unary{rt: rt, method: m, name: info.FullMethod, req: req, next: next, hopped: hopped}
	switch {
	case m.local:
		reply, err = c.local(in, 0)
	case m.read:
		reply, err = c.read(in)
	default:
		reply, err = c.write(in)
	}
	c.setHeaders(ctx)
	return reply, err
}
