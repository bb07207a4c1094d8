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
	// mutexFraction samples every contended lock. Under full load there are some hundred
	// a second.
	mutexFraction = 1
	// blockRate samples one blocking event per so many nanoseconds of blocking.
	blockRate         = 10_000
	maxContentionSecs = 60
)

// contention serves the mutex and block profiles. Sampling is on only while a request
// wants a profile, because it slows every lock of the process. Without a request the
// profiles are empty.
type contention struct {
	mu      sync.Mutex
	running map[string]int // running requests by profile
}

// serve samples a profile for the number of seconds in the request, and returns it.
func (c *contention) serve(w http.ResponseWriter, r *http.Request, profile string) {
	if n, err := strconv.Atoi(r.FormValue("seconds")); err != nil || n < 1 || n > maxContentionSecs {
		http.Error(w, fmt.Sprintf("profile %s: seconds is %q: want 1 to %d (?seconds=10), sampling is off otherwise",
			profile, r.FormValue("seconds"), maxContentionSecs), http.StatusBadRequest)
		return
	}
	defer c.sample(profile)()
	httppprof.Handler(profile).ServeHTTP(w, r)
}

// sample turns sampling on until all requests for the profile have called end.
func (c *contention) sample(profile string) (end func()) {
	c.add(profile, 1)
	return func() { c.add(profile, -1) }
}

func (c *contention) add(profile string, n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.running == nil {
		c.running = map[string]int{}
	}
	c.running[profile] += n
	mutex, block := 0, 0
	if c.running["mutex"] > 0 {
		mutex = mutexFraction
	}
	if c.running["block"] > 0 {
		block = blockRate
	}
	runtime.SetMutexProfileFraction(mutex)
	runtime.SetBlockProfileRate(block)
}
