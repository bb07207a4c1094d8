package lease

import (
	"errors"
	"io"
	"sync"

	"google.golang.org/grpc"

	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// Register adds the service that receives heartbeats from other peers. The engine accepts
// them while this peer leads.
func (e *Engine) Register(r grpc.ServiceRegistrar) {
	internalv1.RegisterLeaseServiceServer(r, &service{engine: e})
}

type service struct {
	internalv1.UnimplementedLeaseServiceServer
	engine *Engine
}

// Renew receives batches of heartbeats and answers each heartbeat once that is safe. Most
// are answered at once, in one message, the others later.
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

// outbox collects answers so that those that are ready together are sent in one message.
type outbox struct {
	wake chan struct{}
	done chan struct{}

	mu    sync.Mutex
	held  bool
	ready []*internalv1.RenewResponse // answers of the same batch are added to the last one
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
		notify(o.wake)
	}
}

// hold delays sending until release, so that the answers of one batch are collected.
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
		notify(o.wake)
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
