package bmc

import (
	"context"
	"sync"
	"time"
)

// gate lets at most one writer and two readers at a time reach a BMC, and IPMI commands no closer together than gap.
type gate struct {
	writer  chan struct{}
	readers chan struct{}

	mu   sync.Mutex
	next time.Time // of an IPMI command
}

func newGate() *gate {
	return &gate{writer: make(chan struct{}, 1), readers: make(chan struct{}, 2)}
}

// enter waits for a place. The caller gives it back by leave.
func (g *gate) enter(ctx context.Context, write bool) (leave func(), err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	places := g.readers
	if write {
		places = g.writer
	}
	select {
	case places <- struct{}{}:
		return func() { <-places }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// pace waits until an IPMI command may start, and takes that turn. It gives the turn back when the context ends first.
func (g *gate) pace(ctx context.Context, gap time.Duration) error {
	g.mu.Lock()
	now := time.Now()
	at := g.next
	if at.Before(now) {
		at = now
	}
	g.next = at.Add(gap)
	g.mu.Unlock()
	t := time.NewTimer(time.Until(at))
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		g.mu.Lock()
		defer g.mu.Unlock()
		if g.next.Equal(at.Add(gap)) { // nobody stands behind
			g.next = at
		}
		return ctx.Err()
	}
}

// ended moves the next turn: the gap counts from when a command has ended.
func (g *gate) ended(gap time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if t := time.Now().Add(gap); t.After(g.next) {
		g.next = t
	}
}
