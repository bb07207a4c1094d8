package diagnose

import (
	"fmt"
	"net/http"
	"net/http/pprof"
	"runtime"
	"strconv"
	"sync"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/server/auth"
)

const (
	// mutexFraction samples every contended lock. Under full load there are some hundred
	// a second.
	mutexFraction = 1
	// blockRate samples one blocking event per so many nanoseconds of blocking.
	blockRate         = 10_000
	maxContentionSecs = 60
)

// Profiles adds the routes of net/http/pprof. They are for admins, because a profile
// exposes data of the process and slows it down.
func Profiles(mux *auth.Mux) {
	admin := auth.Least(holdfastv1.Role_ADMIN)
	waits := new(contention)
	mux.HandleFunc("GET /debug/pprof/{profile...}", admin, nil, func(w http.ResponseWriter, r *http.Request) {
		switch name := r.PathValue("profile"); name {
		case "profile":
			pprof.Profile(w, r)
		case "trace":
			pprof.Trace(w, r)
		case "symbol":
			pprof.Symbol(w, r)
		case "mutex", "block":
			waits.serve(w, r, name)
		case "cmdline":
			http.NotFound(w, r) // settings are for CollectDebug
		default:
			pprof.Index(w, r)
		}
	})
}

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
	c.add(profile, 1)
	defer c.add(profile, -1)
	pprof.Handler(profile).ServeHTTP(w, r)
}

// add changes the number of running requests for a profile, and with it the sampling.
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
