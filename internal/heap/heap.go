// Package heap sets the pace of the garbage collector by the size of the live heap. It keeps no
// data, and does nothing if the environment sets GOGC.
package heap

import (
	"context"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// The garbage collector runs when the heap has grown by a share of its live size. One share
// does not fit all: a peer with a small fleet would collect many times a second under load, and
// one with a million machines would use twice the memory it needs.
const (
	// growth is the allowed growth of the heap between two collections, in bytes, within these
	// shares of the live size, in percent.
	growth                = 512 << 20
	leastShare, mostShare = 50, 400

	measureEvery = 2 * time.Second
)

// gcShare returns GOGC for a heap with so many live bytes.
func gcShare(live uint64) int {
	return int(min(mostShare, max(leastShare, 100*growth/max(1, live))))
}

// Run sets GOGC by the live size until ctx ends. A GOGC in the environment takes precedence.
func Run(ctx context.Context) error {
	if _, set := os.LookupEnv("GOGC"); set {
		return nil
	}
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	tick := time.NewTicker(measureEvery)
	defer tick.Stop()
	for now := 0; ; {
		metrics.Read(live)
		// setting it stops the process for a moment
		if want := gcShare(live[0].Value.Uint64()); 10*want < 9*now || 10*want > 11*now {
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
