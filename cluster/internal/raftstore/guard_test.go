package raftstore

import (
	"bytes"
	"fmt"
	"os"
	"runtime"
	"testing"

	"github.com/hashicorp/raft"

	"github.com/holdfast-metal/holdfast/internal/guard"
)

// written is what this process has passed to write calls so far, and the number of the calls.
type written struct{ bytes, calls int64 }

func writtenSoFar(t *testing.T) (w written) {
	t.Helper()
	b, err := os.ReadFile("/proc/self/io")
	if err != nil {
		t.Skipf("count the writes of this process: %v", err)
	}
	var read int64
	if _, err := fmt.Fscanf(bytes.NewReader(b), "rchar: %d\nwchar: %d\nsyscr: %d\nsyscw: %d\n",
		&read, &w.bytes, &read, &w.calls); err != nil {
		t.Fatalf("read /proc/self/io: %v", err)
	}
	return w
}

// TestGuardStore limits the bytes and the writes of each StoreLogs in both stores, with entries of
// one command and of 64. The system does not count syncs by process: bolt makes two for each
// StoreLogs (data pages, then the meta page), the segments one.
func TestGuardStore(t *testing.T) {
	const calls = 64
	for _, store := range []string{LogStoreBolt, LogStoreWAL} {
		for _, size := range []int{1, 64} {
			data := bytes.Repeat([]byte("x"), 157*size) // StartRun
			var sum written
			var allocs uint64
			cfg := storeConfig(t.TempDir(), store)
			cfg.segmentSize = 0 // as in production, so that none is filled
			openedWith(t, cfg, func(s *Stores) {
				next := uint64(1)
				put := func() {
					if err := s.Logs.StoreLogs([]*raft.Log{{Index: next, Term: 1, Data: data}}); err != nil {
						t.Fatal(err)
					}
					next++
				}
				for range calls { // the file grows, and the first segment is made
					put()
				}
				var m runtime.MemStats
				runtime.ReadMemStats(&m)
				allocs = m.Mallocs
				before := writtenSoFar(t)
				for range calls {
					put()
				}
				after := writtenSoFar(t)
				runtime.ReadMemStats(&m)
				allocs = m.Mallocs - allocs
				sum = written{after.bytes - before.bytes, after.calls - before.calls}
			})
			name := fmt.Sprintf("store.%s.%d", store, size)
			guard.Check(t, name+".bytes", float64(sum.bytes)/calls)
			guard.Check(t, name+".writes", float64(sum.calls)/calls)
			guard.Check(t, name+".allocs", float64(allocs)/calls)
		}
	}
}
