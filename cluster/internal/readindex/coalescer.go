package readindex

import (
	"context"
	"fmt"
	"sync"
)

// Coalescer shares one call among many callers. Callers that arrive during a call are
// answered by the next one, which begins after they arrived.
type Coalescer struct {
	ctx context.Context // the peer's
	do  func(context.Context) (uint64, error)

	mu      sync.Mutex
	running bool
	next    []chan indexAnswer
}

type indexAnswer struct {
	index uint64
	err   error
}

// NewCoalescer returns a coalescer of do, whose context is the peer's.
func NewCoalescer(ctx context.Context, do func(context.Context) (uint64, error)) *Coalescer {
	return &Coalescer{ctx: ctx, do: do}
}

// Get returns the answer of a call that begins after Get.
func (c *Coalescer) Get(ctx context.Context) (uint64, error) {
	ch := make(chan indexAnswer, 1)
	c.mu.Lock()
	c.next = append(c.next, ch)
	if !c.running {
		c.running = true
		go c.run() // ends when no caller waits
	}
	c.mu.Unlock()
	select {
	case a := <-ch:
		return a.index, a.err
	case <-ctx.Done():
		return 0, fmt.Errorf("wait for a read index: %w", ctx.Err())
	}
}

func (c *Coalescer) run() {
	for {
		c.mu.Lock()
		batch := c.next
		c.next = nil
		c.running = len(batch) > 0
		c.mu.Unlock()
		if len(batch) == 0 {
			return
		}
		index, err := c.do(c.ctx)
		for _, ch := range batch {
			ch <- indexAnswer{index, err}
		}
	}
}
