package access

import (
	"context"
	"sync"
	"time"
)

// Gate limits the access to a BMC: at most one writer and two readers at a time, and, if the
// hardware needs a gap between IPMI commands, one such command at a time.
type Gate struct {
	writer  chan struct{}
	readers chan struct{}

	turn chan struct{} // held by the running IPMI command, if there is a gap

	mu   sync.Mutex
	last time.Time // end of the last IPMI command
}

// NewGate returns a gate that nobody has entered.
func NewGate() *Gate {
	return &Gate{writer: make(chan struct{}, 1), readers: make(chan struct{}, 2), turn: make(chan struct{}, 1)}
}

// Enter blocks until the caller may access the BMC. The caller must call leave.
func (g *Gate) Enter(ctx context.Context, write bool) (leave func(), err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	slots := g.readers
	if write {
		slots = g.writer
	}
	select {
	case slots <- struct{}{}:
		return func() { <-slots }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Pace blocks until an IPMI command may start. With a gap, one command runs at a time and starts at
// least the gap after the end of the last one. The caller must call ended, with sent false if
// nothing was sent: then no gap follows.
func (g *Gate) Pace(ctx context.Context, gap time.Duration) (ended func(sent bool), err error) {
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
