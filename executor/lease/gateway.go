package lease

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-metal/holdfast/cluster/outcome"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// Leadership names the leader and connects to it (cluster.Peer).
type Leadership interface {
	Leader() (id string, self, ok bool)
	PeerConn(id string) (grpc.ClientConnInterface, error)
}

const (
	holdTime   = 8 * time.Second       // how long a heartbeat waits for a leader (docs/clients.md)
	firstPause = 10 * time.Millisecond // between tries
	lastPause  = 200 * time.Millisecond
	maxBatch   = 2048            // heartbeats in one message
	maxMessage = 1 << 20         // bytes of one message; servers accept 4 MiB
	maxRenewal = 256 << 10       // bytes of one heartbeat: a pool of a thousand GPUs sends 100 KiB
	lostAfter  = 2 * time.Second // a leader that has not answered for this long counts as hung
)

// Gateway sends heartbeats to the leader, from any peer that receives them.
type Gateway struct {
	engine *Engine
	peers  Leadership
	log    *slog.Logger

	waiters sync.Pool

	mu    sync.Mutex
	links map[string]*link // by peer; at most one is in use, the others are closing
	life  context.Context  // of Run; nil while it is not running
	work  sync.WaitGroup
}

// waiter waits for one answer. Once the answer has arrived there are no other references
// to it, so it is reused.
type waiter struct {
	answer chan *internalv1.RenewalAnswer
	reply  reply
}

func newWaiter() any {
	w := &waiter{answer: make(chan *internalv1.RenewalAnswer, 1)}
	w.reply = func(a *internalv1.RenewalAnswer) { w.answer <- a }
	return w
}

// NewGateway returns a Gateway. It sends nothing to other peers until Run is called.
func NewGateway(engine *Engine, peers Leadership, log *slog.Logger) *Gateway {
	log = cmp.Or(log, slog.New(slog.DiscardHandler))
	return &Gateway{
		engine:  engine,
		peers:   peers,
		log:     log,
		links:   map[string]*link{},
		waiters: sync.Pool{New: newWaiter},
	}
}

// Run maintains the connection to the leader until ctx ends.
func (g *Gateway) Run(ctx context.Context) error {
	g.mu.Lock()
	g.life = ctx
	g.mu.Unlock()
	<-ctx.Done()
	g.mu.Lock()
	g.life = nil // no new link is opened after this
	g.mu.Unlock()
	g.work.Wait()
	return nil
}

// Renew sends a heartbeat to the leader and returns the leader's answer. During elections
// it retries for 8 s, or until ctx ends; then the error is a *outcome.Error. A
// retry by the caller is always safe. A heartbeat of more than 256 KiB is rejected
// (outcome.ErrTooLarge), since it would delay the others.
func (g *Gateway) Renew(ctx context.Context, rn *internalv1.Renewal) (*internalv1.RenewalAnswer, error) {
	c := call{rn: rn, size: sizeOf(rn)}
	if c.size > maxRenewal {
		return nil, &outcome.Error{
			Outcome: outcome.NotApplied,
			Err: fmt.Errorf("%w: heartbeat has %d bytes, at most %d are allowed", outcome.ErrTooLarge, c.size,
				maxRenewal),
		}
	}
	began := time.Now()
	a, why := g.try(ctx, c)
	if taken(a) { // nearly always: the rest is for elections
		return a, nil
	}
	ctx, cancel := context.WithDeadline(ctx, began.Add(holdTime))
	defer cancel()
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		select {
		case <-ctx.Done():
			id, _, _ := g.peers.Leader()
			if why == nil {
				why = outcome.ErrNoLeader
			}
			return nil, &outcome.Error{
				Outcome: outcome.NotApplied,
				Leader:  id,
				Err:     fmt.Errorf("send a heartbeat to the leader: %w", why),
			}
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

// try sends the heartbeat to the current leader once.
func (g *Gateway) try(ctx context.Context, c call) (*internalv1.RenewalAnswer, error) {
	id, self, ok := g.peers.Leader()
	if !ok {
		return nil, outcome.ErrNoLeader
	}
	w := g.waiters.Get().(*waiter)
	c.reply = w.reply
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

// own passes the heartbeat to the engine of this peer, which is the leader.
func (g *Gateway) own(ctx context.Context, w *waiter, c call) (*internalv1.RenewalAnswer, error) {
	g.engine.Take(c.rn, c.reply)
	select {
	case a := <-w.answer: // usually immediate
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
		return nil, errors.New("this peer leads but cannot commit heartbeats")
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// send adds a heartbeat to the link to the leader, which it opens if there is none.
func (g *Gateway) send(id string, c call) (*link, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.life == nil {
		return nil, fmt.Errorf("%w: this peer is not running", outcome.ErrNoLeader)
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
			old.cancel() // its peer no longer leads
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
			g.log.Debug("heartbeat stream ended", "leader", id, "error", err)
		})
	}
	l.add(c)
	return l, nil
}

// sizeOf returns the encoded size of a heartbeat in bytes. For machines it is an upper
// estimate, since computing the size costs as much as encoding the message.
func sizeOf(rn *internalv1.Renewal) int {
	if rn.GetPool() != nil || rn.GetState() != nil {
		return proto.Size(rn)
	}
	const most = 192 // upper bound of all fields but the strings
	return most + len(rn.GetLease().GetId()) + len(rn.GetAgentVersion()) + len(rn.GetPoolName()) +
		len(rn.GetProviderName())
}
