package server

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/holdfast-metal/holdfast/server/internal/nodetest"
)

// contendedForTest holds a lock while other goroutines wait for it.
func contendedForTest(mu *sync.Mutex) {
	mu.Lock()
	runtime.Gosched()
	mu.Unlock()
}

// TestContention checks that a profile contains contention during the request, and that
// sampling is off afterwards.
func TestContention(t *testing.T) {
	n := nodetest.New()
	s := New(Config{}, n, n.Peer, testProviders())
	var mu sync.Mutex
	var all sync.WaitGroup
	done := make(chan struct{})
	for range 2 {
		all.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
					contendedForTest(&mu)
				}
			}
		})
	}
	defer all.Wait()
	defer close(done)
	for _, profile := range []string{"mutex", "block"} {
		code, body := get(t, s, "GET", "/debug/pprof/"+profile+"?seconds=1")
		if code != http.StatusOK {
			t.Fatalf("%s: got %d %q", profile, code, body)
		}
		raw, err := gzip.NewReader(strings.NewReader(body))
		if err != nil {
			t.Fatalf("%s: %v", profile, err)
		}
		names, err := io.ReadAll(raw)
		if err != nil {
			t.Fatalf("%s: %v", profile, err)
		}
		if !bytes.Contains(names, []byte("contendedForTest")) {
			t.Errorf("%s: the contended lock is missing", profile)
		}
		if got := runtime.SetMutexProfileFraction(-1); got != 0 {
			t.Errorf("%s: waits are still sampled, one in %d", profile, got)
		}
	}
	for _, query := range []string{"", "?seconds=0", "?seconds=61", "?seconds=x", "?debug=1"} {
		if code, body := get(t, s, "GET", "/debug/pprof/mutex"+query); code != http.StatusBadRequest ||
			!strings.Contains(body, "want 1 to 60") {
			t.Errorf("mutex%s: got %d %q, want 400 and the remedy", query, code, body)
		}
	}
}
