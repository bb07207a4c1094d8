package lease

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-metal/holdfast/cluster"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// Leadership names the leader and connects to it (cluster.Node).
type Leadership interface {
	Leader() (id string, self, ok bool)
	PeerConn(id string) (grpc.ClientConnInterface, error)
}

const (
	holdTime   = 8 * time.Second       // a heartbeat waits for a leader (docs/clients.md: the same for every API)
	firstPause = 10 * time.Millisecond // between tries
	lastPause  = 200 * time.Millisecond
	maxBatch   = 2048      // heartbeats in one message
	maxMessage = 1 << 20   // bytes of those; servers take 4 MiB
	maxRenewal = 256 << 10 // bytes of one heartbeat: a pool of a thousand GPUs sends 100 KiB
	lostAfter  = 2 * time.Second
)

// Gateway brings heartbeats to the leader, from whichever peer takes them.
type Gateway struct {
	engine *Engine
	peers  Leadership
	log    *slog.Logger

	waiters sync.Pool

	mu    sync.Mutex
	links map[string]*link // by peer; at most one is in use, others end
	life  context.Context  // of Run; nil before
	work  sync.WaitGroup
}

// waiter waits for one answer. Once that has come nobody else knows it, and it is used for another
// one.
type waiter struct {
	answer chan *internalv1.RenewalAnswer
	give   reply
}

func newWaiter() any {
	w := &waiter{answer: make(chan *internalv1.RenewalAnswer, 1)}
	w.give = func(a *internalv1.RenewalAnswer) { w.answer <- a }
	return w
}

// NewGateway returns a Gateway. It carries nothing until Run is called.
func NewGateway(engine *Engine, peers Leadership, log *slog.Logger) *Gateway {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Gateway{engine: engine, peers: peers, log: log, links: map[string]*link{}, waiters: sync.Pool{New: newWaiter}}
}

// Run keeps the connection to the leader until ctx ends.
func (g *Gateway) Run(ctx context.Context) error {
	g.mu.Lock()
	g.life = ctx
	g.mu.Unlock()
	<-ctx.Done()
	g.mu.Lock()
	g.life = nil // from here on nothing new begins
	g.mu.Unlock()
	g.work.Wait()
	return nil
}

// Renew brings a heartbeat to the leader and returns its answer, once it is safe. It rides out
// elections for 8 s, or as long as ctx lasts; then the error is a *cluster.OutcomeError. Another
// try is always safe. One of more than 256 KiB is never taken (cluster.ErrTooLarge): others must
// not have to wait for it.
func (g *Gateway) Renew(ctx context.Context, rn *internalv1.Renewal) (*internalv1.RenewalAnswer, error) {
	c := call{rn: rn, size: sizeOf(rn)}
	if c.size > maxRenewal {
		return nil, &cluster.OutcomeError{Outcome: cluster.NotApplied, Err: fmt.Errorf("%w: a heartbeat of %d bytes, at most %d", cluster.ErrTooLarge, c.size, maxRenewal)}
	}
	began := time.Now()
	a, why := g.try(ctx, c)
	if taken(a) { // nearly always: what follows is for elections
		return a, nil
	}
	ctx, cancel := context.WithDeadline(ctx, began.Add(holdTime))
	defer cancel()
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		select {
		case <-ctx.Done():
			id, _, _ := g.peers.Leader()
			if why == nil {
				why = cluster.ErrNoLeader
			}
			return nil, &cluster.OutcomeError{Outcome: cluster.NotApplied, Leader: id, Err: fmt.Errorf("bring a heartbeat to the leader: %w", why)}
		case <-time.After(pause):
		}
		if a, why = g.try(ctx, c); taken(a) {
			return a, nil
		}
	}
}

// taken reports whether a leader has answered.
func taken(a *internalv1.RenewalAnswer) bool {
	return a != nil && a.GetOutcome() != internalv1.RenewalAnswer_NOT_LEADER
}

// try asks the present leader, once.
func (g *Gateway) try(ctx context.Context, c call) (*internalv1.RenewalAnswer, error) {
	id, self, ok := g.peers.Leader()
	if !ok {
		return nil, cluster.ErrNoLeader
	}
	w := g.waiters.Get().(*waiter)
	c.give = w.give
	if self {
		return g.own(ctx, w, c)
	}
	l, err := g.send(id, c) //nolint:contextcheck // the link is shared and lives as long as the gateway
	if err != nil {
		return nil, err
	}
	select {
	case a := <-w.answer:
		g.waiters.Put(w)
		if !taken(a) && l.wasHung() {
			return nil, fmt.Errorf("leader %s does not answer", id)
		}
		return a, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// own asks the engine of this peer.
func (g *Gateway) own(ctx context.Context, w *waiter, c call) (*internalv1.RenewalAnswer, error) {
	g.engine.Take(c.rn, c.give)
	select {
	case a := <-w.answer: // at once, mostly
		g.waiters.Put(w)
		return a, nil
	default:
	}
	late := time.NewTimer(lostAfter)
	defer late.Stop()
	select {
	case a := <-w.answer:
		g.waiters.Put(w)
		return a, nil
	case <-late.C:
		return nil, errors.New("this peer leads, and cannot put heartbeats on record")
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// send hands a heartbeat to the link with the leader.
func (g *Gateway) send(id string, c call) (*link, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.life == nil {
		return nil, fmt.Errorf("%w: this peer is not up", cluster.ErrNoLeader)
	}
	l := g.links[id]
	if l == nil {
		conn, err := g.peers.PeerConn(id)
		if err != nil {
			return nil, err
		}
		ctx, cancel := context.WithCancel(g.life)
		l = newLink(cancel)
		for _, old := range g.links {
			old.cancel() // that one leads no more
		}
		g.links[id] = l
		g.work.Go(func() {
			err := l.run(ctx, internalv1.NewLeaseServiceClient(conn))
			g.mu.Lock()
			if g.links[id] == l {
				delete(g.links, id)
			}
			g.mu.Unlock()
			l.close()
			g.log.Debug("stream of heartbeats has ended", "leader", id, "error", err)
		})
	}
	l.add(c)
	return l, nil
}

// sizeOf returns the bytes that a heartbeat takes in a message, or somewhat more: to count those of
// a machine takes as long as to write them.
func sizeOf(rn *internalv1.Renewal) int {
	if rn.GetPool() != nil || rn.GetState() != nil {
		return proto.Size(rn)
	}
	const most = 192 // of all but texts
	return most + len(rn.GetLease().GetId()) + len(rn.GetAgentVersion()) + len(rn.GetPoolName()) + len(rn.GetProviderName())
}
