package client

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"

	"github.com/holdfast-metal/holdfast/client/internal/hedge"
)

const (
	// defaultTryTimeout bounds one try of a repeatable request if there is another address.
	// A peer waits as long for a leader before it gives up. A peer that hangs is left much
	// sooner: see hedge.First and watchdog.
	defaultTryTimeout = 8 * time.Second
	// The upper bounds of the first waits between tries, and of all waits.
	firstDelay = 25 * time.Millisecond
	lastDelay  = time.Second
	// A call that is retried for this long logs a warning.
	warnAfter = 2 * time.Second
)

// peer is one address and its connection.
type peer struct {
	number int
	addr   string
	conn   *grpc.ClientConn
	heard  lastHeard
}

// peers is the connection that the stubs use, with one connection per address behind it.
// All calls go to one peer until it fails or another one is faster.
type peers struct {
	cfg        Config
	all        []*peer
	tryTimeout time.Duration
	order      *hedge.Order // numbers in all
	pace       hedge.Pace
	seen       atomic.Uint64
}

// pick returns the peer to try first.
func (p *peers) pick() *peer { return p.all[p.order.List()[0]] }

// NewStream opens a stream to the first peer that accepts a connection. It does not resume
// it.
func (p *peers) NewStream(
	ctx context.Context, desc *grpc.StreamDesc, method string, opts ...grpc.CallOption,
) (grpc.ClientStream, error) {
	var err error
	for range p.all {
		peer := p.pick()
		ctx, try := peer.watch(p.outgoing(ctx, method))
		var s grpc.ClientStream
		if s, err = peer.conn.NewStream(ctx, desc, method, opts...); err == nil {
			return s, nil
		}
		if ctx.Err() != nil || classify(err, try.sent.Load()) != notApplied {
			return nil, err
		}
		p.order.Leave(peer.number)
	}
	return nil, err
}

func (p *peers) close() error {
	var errs []error
	for _, peer := range p.all {
		errs = append(errs, peer.conn.Close())
	}
	return errors.Join(errs...)
}

// delay returns the wait after the given try, counted from 1. It is random up to a ceiling
// (full jitter), so that clients do not return all at once. The ceiling doubles after each
// round of addresses.
func (p *peers) delay(try int) time.Duration {
	rounds := min((try-1)/len(p.all), 10)
	return rand.N(min(firstDelay<<rounds, lastDelay))
}

// sleep waits for d. It returns an error at once if the context would end first.
func sleep(ctx context.Context, d time.Duration) error {
	if end, ok := ctx.Deadline(); ok && time.Until(end) <= d {
		return context.DeadlineExceeded
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
