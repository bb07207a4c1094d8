package harness

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
)

// Size is the resource use of the largest idle peer, and of this process.
type Size struct {
	Goroutines int64
	Heap       int64 // bytes in use
	State      int64 // bytes of the newest snapshot
	Driver     int64 // goroutines of this process
}

func (s Size) String() string {
	return fmt.Sprintf("the largest peer has %d goroutines and a heap of %d MiB for a state of %.1f MiB, "+
		"the driver %d goroutines",
		s.Goroutines, s.Heap>>20, float64(s.State)/(1<<20), s.Driver)
}

// Idle measures the peers after the traffic has ended.
func (c *Cluster) Idle(ctx context.Context) (Size, error) {
	s := Size{Driver: int64(runtime.NumGoroutine())}
	for _, p := range c.Peers() {
		m, err := c.Metrics(ctx, p)
		if err != nil {
			return s, err
		}
		s.Goroutines = max(s.Goroutines, int64(m["go_goroutines"]))
		s.Heap = max(s.Heap, int64(m["go_memstats_heap_inuse_bytes"]))
		snapshots, err := filepath.Glob(filepath.Join(p.DataDir, "snapshots", "*", "state.bin"))
		if err != nil {
			return s, err
		}
		for _, name := range snapshots {
			if st, err := os.Stat(name); err == nil { // otherwise it was replaced meanwhile
				s.State = max(s.State, st.Size())
			}
		}
	}
	if s.Goroutines == 0 || s.Heap == 0 {
		return s, fmt.Errorf("no peer returns its size")
	}
	return s, nil
}
