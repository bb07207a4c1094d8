package lease_test

import (
	"context"
	"errors"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"

	"github.com/holdfast-metal/holdfast/cluster/outcome"
	"github.com/holdfast-metal/holdfast/executor/lease"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// outpost is a follower whose gateway reaches leaders over gRPC. Each leader is a
// separate peer.
type outpost struct {
	*lab
	gateway     *lease.Gateway
	stopGateway func() // and waits for its end

	mu     sync.Mutex
	leader string // known to the follower
	hosts  map[string]*host
}

// host is a peer that other peers can reach.
type host struct {
	lis  *bufconn.Listener
	srv  *grpc.Server
	conn *grpc.ClientConn

	mu       sync.Mutex
	requests []int         // renewals in each received message
	gate     chan struct{} // closed while connections are possible
	deaf     bool          // receives messages and ignores them
	woken    *sync.Cond    // signals changes of deaf
	streams  int           // number of opened streams
}

func newOutpost(t *testing.T) *outpost {
	t.Helper()
	o := &outpost{lab: newLab(t, 1), hosts: map[string]*host{}}
	o.gateway = lease.NewGateway(lease.NewEngine(lease.Config{}, proposer{lab: o.lab, cut: new(bool)}, o.lab.state), o,
		nil)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- o.gateway.Run(ctx) }()
	synctest.Wait() // until it runs
	o.stopGateway = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("gateway: got %v", err)
		}
	})
	t.Cleanup(func() {
		o.depose()
		o.stopGateway()
		for _, h := range o.hosts {
			_ = h.conn.Close()
			h.srv.Stop()
		}
	})
	return o
}

// Leader implements lease.Leadership.
func (o *outpost) Leader() (id string, self, ok bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.leader, false, o.leader != ""
}

// PeerConn implements lease.Leadership.
func (o *outpost) PeerConn(id string) (grpc.ClientConnInterface, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if h := o.hosts[id]; h != nil {
		return h.conn, nil
	}
	return nil, errors.New("no such peer")
}

// knows sets the leader that the follower knows.
func (o *outpost) knows(id string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.leader = id
}

// serve makes an engine reachable as a peer.
func (o *outpost) serve(id string, e *lease.Engine) *host {
	o.t.Helper()
	h := &host{lis: bufconn.Listen(1 << 20), gate: make(chan struct{})}
	h.woken = sync.NewCond(&h.mu)
	close(h.gate)
	h.srv = grpc.NewServer(grpc.MaxRecvMsgSize(4<<20), grpc.StreamInterceptor(h.count)) // as in package server
	e.Register(h.srv)
	go func() { _ = h.srv.Serve(h.lis) }()
	conn, err := grpc.NewClient("passthrough:///"+id, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			h.mu.Lock()
			gate := h.gate
			h.mu.Unlock()
			select {
			case <-gate:
				return h.lis.DialContext(ctx)
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}))
	if err != nil {
		o.t.Fatal(err)
	}
	h.conn = conn
	o.mu.Lock()
	defer o.mu.Unlock()
	o.hosts[id] = h
	return h
}

// elect makes a new peer the leader, known to the follower.
func (o *outpost) elect(id string, outage time.Duration) *host {
	o.t.Helper()
	o.knows("")
	o.lead(outage)
	h := o.serve(id, o.engine.Load())
	o.knows(id)
	return h
}

// count counts received messages, and blocks them while the host is deaf.
func (h *host) count(srv any, ss grpc.ServerStream, _ *grpc.StreamServerInfo, next grpc.StreamHandler) error {
	h.mu.Lock()
	h.streams++
	h.mu.Unlock()
	return next(srv, &countedStream{ServerStream: ss, h: h})
}

type countedStream struct {
	grpc.ServerStream
	h *host
}

func (s *countedStream) RecvMsg(m any) error {
	err := s.ServerStream.RecvMsg(m)
	if req, ok := m.(*internalv1.RenewRequest); ok && err == nil {
		s.h.mu.Lock()
		s.h.requests = append(s.h.requests, len(req.GetRenewals()))
		for s.h.deaf {
			s.h.woken.Wait()
		}
		s.h.mu.Unlock()
	}
	return err
}

func (h *host) setDeaf(deaf bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.deaf = deaf
	h.woken.Broadcast()
}

// shut blocks new connections until the returned function is called.
func (h *host) shut() func() {
	h.mu.Lock()
	defer h.mu.Unlock()
	gate := make(chan struct{})
	h.gate = gate
	return func() { close(gate) }
}

func (h *host) seen() (requests []int, streams int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]int(nil), h.requests...), h.streams
}

// answer is the outcome of a Renew, and its duration.
type answer struct {
	outcome internalv1.RenewalAnswer_Outcome
	err     error
	took    time.Duration
}

func (o *outpost) renew(ctx context.Context, id string) answer {
	began := time.Now()
	a, err := o.gateway.Renew(ctx, &internalv1.Renewal{Lease: &internalv1.LeaseRef{Kind: machine, Id: id}})
	return answer{a.GetOutcome(), err, time.Since(began)}
}

// renewing starts renew in the background.
func (o *outpost) renewing(ctx context.Context, id string) <-chan answer {
	c := make(chan answer, 1)
	go func() { c <- o.renew(ctx, id) }()
	return c
}

func (o *outpost) want(what string, got answer, want internalv1.RenewalAnswer_Outcome) {
	o.t.Helper()
	if got.err != nil || got.outcome != want {
		o.t.Errorf("%s: got %v, %v after %v, want %v", what, got.outcome, got.err, got.took, want)
	}
}

// wantNotApplied checks the error of a heartbeat that found no leader.
func (o *outpost) wantNotApplied(what string, got answer, cause error) {
	o.t.Helper()
	out, ok := errors.AsType[*outcome.Error](got.err)
	if !ok || out.Outcome != outcome.NotApplied || cause != nil && !errors.Is(got.err, cause) {
		o.t.Errorf("%s: got %v, %v, want NotApplied with %v", what, got.outcome, got.err, cause)
	}
}
