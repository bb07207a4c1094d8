package bmc

import (
	"context"
	"sync"
	"time"
)

// gate lets at most one writer and two readers at a time reach a BMC, and IPMI commands one by one
// with a gap between them, where the hardware needs one.
type gate struct {
	writer  chan struct{}
	readers chan struct{}

	turn chan struct{} // held by the one IPMI command that is under way, where there is a gap

	mu   sync.Mutex
	last time.Time // the end of an IPMI command
}

func newGate() *gate {
	return &gate{writer: make(chan struct{}, 1), readers: make(chan struct{}, 2), turn: make(chan struct{}, 1)}
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

// pace waits until an IPMI command may start. With a gap one command is under way at a time, and
// begins that long after the last one has ended. The caller says when it has ended, and whether
// anything was sent: what was not sent gives its turn back.
func (g *gate) pace(ctx context.Context, gap time.Duration) (ended func(sent bool), err error) {
	free := func() {}
	if gap > 0 {
		select {
		case g.turn <- struct{}{}:
			free = func() { <-g.turn }
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		g.mu.Lock()
		wait := time.Until(g.last.Add(gap))
		g.mu.Unlock()
		t := time.NewTimer(wait)
		defer t.Stop()
		select {
		case <-t.C:
		case <-ctx.Done():
			free()
			return nil, ctx.Err()
		}
	}
	return func(sent bool) {
		if sent {
			g.mu.Lock()
			g.last = time.Now()
			g.mu.Unlock()
		}
		free()
	}, nil
}
