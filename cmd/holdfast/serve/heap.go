package serve

import (
	"context"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// The garbage collector runs when the heap has grown by a share of what is alive. One share does
// not fit all: a peer with a small fleet would collect many times a second under load, and one with
// a million machines would take twice the memory that they need.
const (
	// heapGrowth is by how much a heap may grow between two collections, in bytes, within these
	// shares of what is alive, in percent.
	heapGrowth            = 512 << 20
	leastShare, mostShare = 50, 400
	// heapLook is the pause between two looks.
	heapLook = 2 * time.Second
)

// gcShare is GOGC for a heap of which so many bytes are alive.
func gcShare(live uint64) int {
	return int(min(mostShare, max(leastShare, 100*heapGrowth/max(1, live))))
}

// keepHeap sets GOGC by what is alive, until ctx ends. A GOGC that is set in the environment wins.
func keepHeap(ctx context.Context) error {
	if _, set := os.LookupEnv("GOGC"); set {
		return nil
	}
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	tick := time.NewTicker(heapLook)
	defer tick.Stop()
	for now := 0; ; {
		metrics.Read(live)
		if want := gcShare(live[0].Value.Uint64()); 10*want < 9*now || 10*want > 11*now { // to set it stops the process for a moment
			debug.SetGCPercent(want)
			now = want
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}
