package lease

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// call is a heartbeat on its way to the leader.
type call struct {
	rn   *internalv1.Renewal
	size int // bytes
	give reply
}

// A message costs both sides more than the heartbeats in it. The first one after a pause waits for
// nothing; then what comes within gather goes together, or as soon as there are enough. A fleet
// waits for its commits anyway, up to a second.
const (
	gather = 10 * time.Millisecond
	enough = 32
)

// link is the stream to one leader.
type link struct {
	cancel context.CancelFunc
	wake   chan struct{} // there is something to send
	many   chan struct{} // there is enough

	mu       sync.Mutex
	closed   bool
	hung     bool // the leader did not answer
	queue    []call
	since    time.Time // the queue is not empty
	batch    uint64
	inflight map[uint64]*sent
	spare    []call // of a batch that has been answered, for another one
}

// sent is a batch on its way.
type sent struct {
	calls []call // answered ones have no give
	left  int    // that are not answered
	since time.Time
}

func newLink(cancel context.CancelFunc) *link {
	return &link{cancel: cancel, wake: make(chan struct{}, 1), many: make(chan struct{}, 1), inflight: map[uint64]*sent{}}
}

func (l *link) add(c call) {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		c.give(notLeader())
		return
	}
	if len(l.queue) == 0 {
		l.since = time.Now()
	}
	l.queue = append(l.queue, c)
	l.signal()
	l.mu.Unlock()
}

// signal reports that there is something to send, and whether it is enough. It is called with the
// lock held.
func (l *link) signal() {
	raise(l.wake)
	if len(l.queue) >= enough {
		raise(l.many)
	}
}

// raise sets a signal that may be set already.
func raise(signal chan<- struct{}) {
	select {
	case signal <- struct{}{}:
	default:
	}
}

// close answers every call that waits.
func (l *link) close() {
	l.mu.Lock()
	l.closed = true
	waiting := l.queue
	for _, b := range l.inflight {
		waiting = append(waiting, b.calls...)
	}
	l.queue, l.inflight = nil, nil
	l.mu.Unlock()
	l.cancel()
	for _, c := range waiting {
		if c.give != nil {
			c.give(notLeader())
		}
	}
}

// watch ends the link when the leader takes too long: one that hangs keeps its connections. It is
// done here and not for each call, as a timer costs more than what else there is to a call.
func (l *link) watch(ctx context.Context) {
	tick := time.NewTicker(lostAfter / 8)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			if l.hangs(now) {
				l.cancel()
				return
			}
		}
	}
}

func (l *link) hangs(now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.hung = len(l.queue) > 0 && now.Sub(l.since) >= lostAfter
	for _, b := range l.inflight {
		l.hung = l.hung || now.Sub(b.since) >= lostAfter
	}
	return l.hung
}

// wasHung reports whether the link was ended because the leader did not answer.
func (l *link) wasHung() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.hung
}

// run carries heartbeats and answers until the stream breaks or ctx ends.
func (l *link) run(ctx context.Context, client internalv1.LeaseServiceClient) error {
	ctx, cancel := context.WithCancel(ctx)
	var watching sync.WaitGroup
	watching.Go(func() { l.watch(ctx) })
	defer watching.Wait()
	defer cancel()
	stream, err := client.Renew(ctx)
	if err != nil {
		return fmt.Errorf("open the stream: %w", err)
	}
	received := make(chan error, 1)
	go func() { // ends with ctx
		received <- l.receive(stream)
		cancel()
	}()
	err = l.sendAll(ctx, stream)
	cancel()
	if rerr := <-received; rerr != nil {
		return rerr
	}
	return err
}

type renewStream interface {
	Send(*internalv1.RenewRequest) error
	Recv() (*internalv1.RenewResponse, error)
}

func (l *link) sendAll(ctx context.Context, stream renewStream) error {
	pause := time.NewTimer(0)
	defer pause.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-l.wake:
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-pause.C:
		case <-l.many:
		}
		if req := l.next(); req != nil {
			if err := stream.Send(req); err != nil {
				return fmt.Errorf("send heartbeats: %w", err)
			}
		}
		pause.Reset(gather)
	}
}

// next returns the next message; nil if there is nothing to send.
func (l *link) next() *internalv1.RenewRequest {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.queue) == 0 || l.closed {
		return nil
	}
	n := 0
	for size := 0; n < min(len(l.queue), maxBatch); n++ {
		if size += l.queue[n].size; n > 0 && size > maxMessage {
			break
		}
	}
	l.batch++
	req := &internalv1.RenewRequest{Batch: l.batch, Renewals: make([]*internalv1.Renewal, n)}
	b := &sent{calls: l.queue[:n:n], left: n, since: l.since}
	for i, c := range b.calls {
		req.Renewals[i] = c.rn
	}
	select {
	case <-l.many: // that was for these
	default:
	}
	if l.queue = l.queue[n:]; len(l.queue) == 0 {
		l.queue, l.spare = l.spare, nil
	} else {
		l.since = time.Now()
		l.signal()
	}
	l.inflight[l.batch] = b
	return req
}

func (l *link) receive(stream renewStream) error {
	var room []given
	for {
		resp, err := stream.Recv()
		if err != nil {
			return fmt.Errorf("receive answers: %w", err)
		}
		room = l.answer(resp, room)
	}
}

// given is an answer on its way to who waits for it.
type given struct {
	reply
	a *internalv1.RenewalAnswer
}

// answer sends each caller its answer. Room is for use by the next one.
func (l *link) answer(resp *internalv1.RenewResponse, room []given) []given {
	all := l.match(resp, room[:0])
	for i, g := range all {
		g.reply(g.a)
		all[i] = given{}
	}
	return all
}

// match finds out who waits for the answers of a message.
func (l *link) match(resp *internalv1.RenewResponse, all []given) []given {
	l.mu.Lock()
	defer l.mu.Unlock()
	b := l.inflight[resp.GetBatch()]
	if b == nil {
		return all
	}
	for i, p := range resp.GetPositions() {
		if int(p) < len(b.calls) && i < len(resp.GetAnswers()) && b.calls[p].give != nil {
			all = append(all, given{b.calls[p].give, resp.GetAnswers()[i]})
			b.calls[p] = call{}
			b.left--
		}
	}
	if b.left == 0 {
		delete(l.inflight, resp.GetBatch())
		if cap(b.calls) > cap(l.spare) {
			l.spare = b.calls[:0]
		}
	}
	return all
}
