package server

import (
	"fmt"
	"net/http"
	httppprof "net/http/pprof"
	"runtime"
	"strconv"
	"sync"
)

const (
	// mutexFraction: of the waits for locks one in so many is noted, which is all. Under full load
	// there are some hundred in a second.
	mutexFraction = 1
	// blockRate: of everything that goroutines wait for one wait is noted for so many nanoseconds
	// of waiting.
	blockRate         = 10_000
	maxContentionSecs = 60
)

// contention takes the profiles of waiting. What they are made of is noted only while somebody
// takes one, because it costs each lock of the process something: without that they are empty, and
// look as if nobody had ever waited.
type contention struct {
	mu    sync.Mutex
	takes map[string]int // how many take it now, by profile
}

// take answers with what has been waited for from now on, for as many seconds as the request says.
func (c *contention) take(w http.ResponseWriter, r *http.Request, profile string) {
	if n, err := strconv.Atoi(r.FormValue("seconds")); err != nil || n < 1 || n > maxContentionSecs {
		http.Error(w, fmt.Sprintf("take profile %s: seconds is %q: say for how long, 1 to %d (?seconds=10), for nothing is noted before", profile, r.FormValue("seconds"), maxContentionSecs),
			http.StatusBadRequest)
		return
	}
	defer c.note(profile)()
	httppprof.Handler(profile).ServeHTTP(w, r)
}

// note has the process note what is waited for, until all who want that have ended it.
func (c *contention) note(profile string) (end func()) {
	c.add(profile, 1)
	return func() { c.add(profile, -1) }
}

func (c *contention) add(profile string, n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.takes == nil {
		c.takes = map[string]int{}
	}
	c.takes[profile] += n
	mutex, block := 0, 0
	if c.takes["mutex"] > 0 {
		mutex = mutexFraction
	}
	if c.takes["block"] > 0 {
		block = blockRate
	}
	runtime.SetMutexProfileFraction(mutex)
	runtime.SetBlockProfileRate(block)
}
