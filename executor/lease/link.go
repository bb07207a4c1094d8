package lease

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// call is a sign of life on its way to the leader.
type call struct {
	rn   *internalv1.Renewal
	size int // bytes
	give reply
}

// A message costs both sides more than the signs of life in it. The first one after a pause waits for nothing; then what comes within
// gather goes together, or as soon as there are enough. A fleet waits for its commits anyway, up to a second.
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
	queue    []call
	batch    uint64
	inflight map[uint64][]call // answered ones have no give
}

func (l *link) add(c call) {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		c.give(notLeader())
		return
	}
	l.queue = append(l.queue, c)
	l.signal()
	l.mu.Unlock()
}

// signal says that there is something to send, and whether it is enough. It is called with the lock held.
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

// close gives everybody back who waits.
func (l *link) close() {
	l.mu.Lock()
	l.closed = true
	waiting := l.queue
	for _, calls := range l.inflight {
		waiting = append(waiting, calls...)
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

// run carries signs of life and answers until the stream breaks or ctx ends.
func (l *link) run(ctx context.Context, client internalv1.LeaseServiceClient) error {
	ctx, cancel := context.WithCancel(ctx)
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
				return fmt.Errorf("send signs of life: %w", err)
			}
		}
		pause.Reset(gather)
	}
}

// next gives the next message; nil when there is nothing to send.
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
	calls := make([]call, n)
	copy(calls, l.queue)
	for i, c := range calls {
		req.Renewals[i] = c.rn
	}
	select {
	case <-l.many: // that was for these
	default:
	}
	if l.queue = l.queue[n:]; len(l.queue) == 0 {
		l.queue = nil
	} else {
		l.signal()
	}
	l.inflight[l.batch] = calls
	return req
}

func (l *link) receive(stream renewStream) error {
	for {
		resp, err := stream.Recv()
		if err != nil {
			return fmt.Errorf("receive answers: %w", err)
		}
		l.answer(resp)
	}
}

func (l *link) answer(resp *internalv1.RenewResponse) {
	type given struct {
		reply
		a *internalv1.RenewalAnswer
	}
	var all []given
	l.mu.Lock()
	calls := l.inflight[resp.GetBatch()]
	for i, p := range resp.GetPositions() {
		if int(p) < len(calls) && i < len(resp.GetAnswers()) && calls[p].give != nil {
			all = append(all, given{calls[p].give, resp.GetAnswers()[i]})
			calls[p].give = nil
		}
	}
	left := false
	for _, c := range calls {
		if c.give != nil {
			left = true
			break
		}
	}
	if !left {
		delete(l.inflight, resp.GetBatch())
	}
	l.mu.Unlock()
	for _, g := range all {
		g.reply(g.a)
	}
}
