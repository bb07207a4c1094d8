package lease

import (
	"errors"
	"io"
	"sync"

	"google.golang.org/grpc"

	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// Register adds the service that brings other peers' heartbeats to this one, which takes them while
// it leads.
func (e *Engine) Register(r grpc.ServiceRegistrar) {
	internalv1.RegisterLeaseServiceServer(r, &service{engine: e})
}

type service struct {
	internalv1.UnimplementedLeaseServiceServer
	engine *Engine
}

// Renew takes batches and answers each heartbeat when it is safe: most at once, in one message,
// others later.
func (s *service) Renew(stream internalv1.LeaseService_RenewServer) error {
	o := &outbox{wake: make(chan struct{}, 1), done: make(chan struct{})}
	sent := make(chan error, 1)
	go func() { sent <- o.run(stream) }() // ends with o.close
	err := s.receive(stream, o)
	o.close()
	if serr := <-sent; err == nil {
		err = serr
	}
	return err
}

func (s *service) receive(stream internalv1.LeaseService_RenewServer, o *outbox) error {
	for {
		req, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		o.hold()
		for i, rn := range req.GetRenewals() {
			s.engine.Take(rn, func(a *internalv1.RenewalAnswer) { o.add(req.GetBatch(), uint32(i), a) })
		}
		o.release()
	}
}

// outbox collects answers, so that those that are ready together go in one message.
type outbox struct {
	wake chan struct{}
	done chan struct{}

	mu    sync.Mutex
	held  bool
	ready []*internalv1.RenewResponse // the last one is open for more of its batch
}

func (o *outbox) add(batch uint64, position uint32, a *internalv1.RenewalAnswer) {
	o.mu.Lock()
	defer o.mu.Unlock()
	n := len(o.ready)
	if n == 0 || o.ready[n-1].GetBatch() != batch {
		o.ready = append(o.ready, &internalv1.RenewResponse{Batch: batch})
		n++
	}
	r := o.ready[n-1]
	r.Answers, r.Positions = append(r.Answers, a), append(r.Positions, position)
	if !o.held {
		o.signal()
	}
}

// hold keeps answers back until release: those of one batch come one after the other.
func (o *outbox) hold() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.held = true
}

func (o *outbox) release() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.held = false
	if len(o.ready) > 0 {
		o.signal()
	}
}

func (o *outbox) signal() {
	select {
	case o.wake <- struct{}{}:
	default:
	}
}

func (o *outbox) close() { close(o.done) }

func (o *outbox) run(stream internalv1.LeaseService_RenewServer) error {
	for {
		select {
		case <-o.done:
			return nil
		case <-o.wake:
		}
		o.mu.Lock()
		ready := o.ready
		o.ready = nil
		o.mu.Unlock()
		for _, r := range ready {
			if err := stream.Send(r); err != nil {
				return err
			}
		}
	}
}
