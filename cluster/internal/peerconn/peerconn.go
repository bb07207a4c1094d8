// Package peerconn owns the gRPC connections to the other peers. It must not know what is called on
// them, apart from the client of the PeerService.
package peerconn

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/stats"

	"github.com/holdfast-metal/holdfast/cluster/internal/transport"
	"github.com/holdfast-metal/holdfast/cluster/peertls"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

const maxMessage = 64 << 20 // bytes, between peers

// Conns are the gRPC connections to the other peers, one each, created on first use.
type Conns struct {
	lookup func(id string) (addr string, ok bool)
	secure func(id string) credentials.TransportCredentials // verifies that the server is that peer
	opts   []grpc.DialOption

	mu     sync.Mutex
	closed bool
	byID   map[string]*conn
}

type conn struct {
	addr string
	*grpc.ClientConn
}

// New returns connections without any. store holds the certificates; if it is nil, connections are
// not secured. lookup returns the address of a peer.
func New(store *peertls.Store, opts []grpc.DialOption, lookup func(id string) (addr string, ok bool)) *Conns {
	secure := func(string) credentials.TransportCredentials { return insecure.NewCredentials() }
	if store != nil {
		secure = store.PeerCredentials
	}
	return &Conns{
		lookup: lookup,
		secure: secure,
		byID:   map[string]*conn{},
		opts: append([]grpc.DialOption{
			grpc.WithNoProxy(),
			grpc.WithContextDialer(transport.DialPeer),
			grpc.WithIdleTimeout(0),
			grpc.WithStatsHandler(sentHandler{}),
			grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage), grpc.MaxCallSendMsgSize(maxMessage)),
			grpc.WithConnectParams(grpc.ConnectParams{
				Backoff: backoff.Config{
					BaseDelay: 20 * time.Millisecond, MaxDelay: 500 * time.Millisecond,
					Multiplier: 1.6, Jitter: 0.2,
				},
				MinConnectTimeout: time.Second,
			}),
		}, opts...),
	}
}

// Get returns the connection to a peer at its current address.
func (c *Conns) Get(id string) (*grpc.ClientConn, error) {
	addr, ok := c.lookup(id)
	if !ok {
		return nil, fmt.Errorf("connect to peer %s: its gRPC address is unknown", id)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, fmt.Errorf("connect to peer %s: this peer is stopping", id)
	}
	old := c.byID[id]
	if old != nil && old.addr == addr {
		return old.ClientConn, nil
	}
	cc, err := grpc.NewClient(addr, append(slices.Clip(c.opts), grpc.WithTransportCredentials(c.secure(id)))...)
	if err != nil {
		return nil, fmt.Errorf("connect to peer %s at %s: %w", id, addr, err)
	}
	if old != nil {
		_ = old.Close()
	}
	c.byID[id] = &conn{addr: addr, ClientConn: cc}
	return cc, nil
}

// Peer returns a client of a peer's PeerService.
func (c *Conns) Peer(id string) (internalv1.PeerServiceClient, error) {
	cc, err := c.Get(id)
	if err != nil {
		return nil, err
	}
	return internalv1.NewPeerServiceClient(cc), nil
}

// Close closes all connections and allows no new ones.
func (c *Conns) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	for _, cc := range c.byID {
		_ = cc.Close()
	}
}

type sentKey struct{}

// WithSent returns a context whose call records whether it was sent to the network.
func WithSent(ctx context.Context) (context.Context, *atomic.Bool) {
	s := &atomic.Bool{}
	return context.WithValue(ctx, sentKey{}, s), s
}

// MarkSent records whether the call of a context of WithSent was sent. The connections do that.
func MarkSent(ctx context.Context, sent bool) {
	if s, ok := ctx.Value(sentKey{}).(*atomic.Bool); ok {
		s.Store(sent)
	}
}

// sentHandler records when the header of a call is sent. Before that the other side cannot
// have handled the call. gRPC itself retries a call only if the other side has certainly
// not handled it, and Begin then resets the record.
type sentHandler struct{}

// TagRPC implements stats.Handler.
func (sentHandler) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context { return ctx }

// HandleRPC implements stats.Handler.
func (sentHandler) HandleRPC(ctx context.Context, e stats.RPCStats) {
	switch e.(type) {
	case *stats.Begin:
		MarkSent(ctx, false)
	case *stats.OutHeader:
		MarkSent(ctx, true)
	}
}

// TagConn implements stats.Handler.
func (sentHandler) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }

// HandleConn implements stats.Handler.
func (sentHandler) HandleConn(context.Context, stats.ConnStats) {}
