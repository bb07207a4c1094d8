package harness

import (
	"context"
	"fmt"
)

// Size is how much the largest peer takes while nothing happens.
type Size struct {
	Goroutines int64
	Heap       int64 // bytes in use
}

func (s Size) String() string {
	return fmt.Sprintf("the largest peer has %d goroutines and a heap of %d MiB", s.Goroutines, s.Heap>>20)
}

// Idle measures the peers. Traffic has ended.
func (c *Cluster) Idle(ctx context.Context) (Size, error) {
	var s Size
	for _, p := range c.Peers() {
		m, err := c.Metrics(ctx, p)
		if err != nil {
			return s, err
		}
		s.Goroutines = max(s.Goroutines, int64(m["go_goroutines"]))
		s.Heap = max(s.Heap, int64(m["go_memstats_heap_inuse_bytes"]))
	}
	if s.Goroutines == 0 || s.Heap == 0 {
		return s, fmt.Errorf("no peer says how large it is")
	}
	return s, nil
}
