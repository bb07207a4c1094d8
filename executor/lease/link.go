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
	rn    *internalv1.Renewal
	size  int // bytes
	reply reply
}

// A message costs both sides more than the heartbeats in it, so they are sent in batches.
// The first message after a pause is sent at once. Then heartbeats are collected for
// batchWindow, or until there are batchSize of them. The delay is small against a large
// fleet's commits, which take up to a second.
const (
	batchWindow = 10 * time.Millisecond
	batchSize   = 32
)

// link is the stream to one leader.
type link struct {
	cancel context.CancelFunc
	wake   chan struct{} // the queue is not empty
	full   chan struct{} // the queue has batchSize heartbeats

	mu       sync.Mutex
	closed   bool
	hung     bool // the leader did not answer in time
	queue    []call
	since    time.Time // when the queue stopped being empty
	batch    uint64
	inflight map[uint64]*sent
	spare    []call // buffer of an answered batch, to be reused
}

// sent is a batch that is not fully answered yet.
type sent struct {
	calls []call // zero once answered
	left  int    // number of unanswered calls
	since time.Time
}

func newLink(cancel context.CancelFunc) *link {
	return &link{
		cancel:   cancel,
		wake:     make(chan struct{}, 1),
		full:     make(chan struct{}, 1),
		inflight: map[uint64]*sent{},
	}
}

func (l *link) add(c call) {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		c.reply(notLeader())
		return
	}
	if len(l.queue) == 0 {
		l.since = time.Now()
	}
	l.queue = append(l.queue, c)
	l.signal()
	l.mu.Unlock()
}

// signal wakes sendAll. It is called with the lock held.
func (l *link) signal() {
	notify(l.wake)
	if len(l.queue) >= batchSize {
		notify(l.full)
	}
}

// notify sets a signal. It does nothing if the signal is already set.
func notify(signal chan<- struct{}) {
	select {
	case signal <- struct{}{}:
	default:
	}
}

// close ends the link and answers all waiting calls with NOT_LEADER.
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
		if c.reply != nil {
			c.reply(notLeader())
		}
	}
}

// watch ends the link if the leader takes too long to answer, since a hung peer does not
// close its connections. There is one timer for the link because a timer per call would
// cost more than the call itself.
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

// run sends heartbeats and receives answers until the stream breaks or ctx ends.
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
		case <-l.full:
		}
		if req := l.next(); req != nil {
			if err := stream.Send(req); err != nil {
				return fmt.Errorf("send heartbeats: %w", err)
			}
		}
		pause.Reset(batchWindow)
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
	case <-l.full: // it was set for the calls of this message
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
	var room []delivery
	for {
		resp, err := stream.Recv()
		if err != nil {
			return fmt.Errorf("receive answers: %w", err)
		}
		room = l.answer(resp, room)
	}
}

// delivery is an answer with the reply function of its caller.
type delivery struct {
	reply
	a *internalv1.RenewalAnswer
}

// answer delivers the answers of a message to their callers. It returns room, a buffer to reuse.
func (l *link) answer(resp *internalv1.RenewResponse, room []delivery) []delivery {
	all := l.match(resp, room[:0])
	for i, g := range all {
		g.reply(g.a)
		all[i] = delivery{}
	}
	return all
}

// match appends the answers of a message to all, each with its caller's reply function.
func (l *link) match(resp *internalv1.RenewResponse, all []delivery) []delivery {
	l.mu.Lock()
	defer l.mu.Unlock()
	b := l.inflight[resp.GetBatch()]
	if b == nil {
		return all
	}
	for i, p := range resp.GetPositions() {
		if int(p) < len(b.calls) && i < len(resp.GetAnswers()) && b.calls[p].reply != nil {
			all = append(all, delivery{b.calls[p].reply, resp.GetAnswers()[i]})
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
