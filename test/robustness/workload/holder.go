package workload

import (
	"context"
	"math/rand/v2"
	"net/http/httputil"
	"net/url"
	"sync"
	"time"

	"github.com/holdfast-metal/holdfast/internal/wait"
)

// holder is one client of a lease. Its process ends and restarts, its identity stays.
type holder struct {
	fleet     *fleet
	kind      Holder
	name      string
	number    int
	steady    bool // it is never stopped before the end
	isProcess bool
	ttl       time.Duration
	dir       string // state that survives restarts
	tap       *tap
	proxies   []string // of a process: the addresses of the peers
	starter   func(*holder) (incarnation, error)

	mu    sync.Mutex
	now   *activeProcess
	stops []Stop
}

// incarnation is one process of a client.
type incarnation struct {
	run    func(context.Context) error // until the context ends; then deregisters, if the protocol supports that
	freeze func() (thaw func())
}

// activeProcess is a running incarnation.
type activeProcess struct {
	incarnation
	leave context.CancelFunc
	cut   func()
	done  chan struct{}
}

// live lets the client come and go until traffic ends. Then it keeps its state. It is
// killed when life ends.
func (h *holder) live(life, traffic context.Context, rng *rand.Rand) {
	defer h.end(Stayed)
	// pick returns a time between two multiples of the TTL.
	pick := func(from, to float64) time.Duration {
		return time.Duration((from + (to-from)*rng.Float64()) * float64(h.ttl))
	}
	if wait.Sleep(traffic, pick(0, 0.15)) != nil || !h.begin() {
		return
	}
	for !h.steady && wait.Sleep(traffic, pick(0.4, 2)) == nil {
		dice := rng.IntN(10)
		away := pick(3.5, 5) // it is lost meanwhile
		switch {
		case dice < 2: // it freezes, for less than it takes to be lost or for more
			h.frozen(traffic, pick(0.3, 2))
			continue
		case dice < 4 && h.kind != Machine: // machines cannot deregister
			h.end(Left)
			away = max(away, held) // an unanswered deregistration may take effect late
		case dice < 6: // it comes back before it is declared lost
			h.end(Killed)
			away = pick(0.1, 0.5)
		default:
			h.end(Killed)
		}
		if wait.Sleep(traffic, away) != nil || !h.begin() {
			break
		}
	}
	<-life.Done()
}

// begin starts an incarnation, unless the client was killed permanently.
func (h *holder) begin() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.now != nil {
		return false
	}
	cut := h.tap.begin()
	inc, err := h.starter(h)
	if err != nil {
		h.fleet.w.target.Log.Error("cannot start a client of a lease", "name", h.name, "error", err)
		return false
	}
	ctx, leave := context.WithCancel(context.Background())
	p := &activeProcess{incarnation: inc, leave: leave, cut: cut, done: make(chan struct{})}
	go func() {
		defer close(p.done)
		if err := inc.run(ctx); err != nil && ctx.Err() == nil {
			h.fleet.w.target.Log.Error("a client of a lease has ended by itself", "name", h.name, "error", err)
		}
	}()
	h.now = p
	return true
}

// end ends the running incarnation, if there is one.
func (h *holder) end(how End) {
	h.mu.Lock()
	defer h.mu.Unlock()
	p := h.now
	if p == nil {
		return
	}
	h.now = nil
	if how != Left {
		p.cut()
	}
	h.stops = append(h.stops, Stop{How: how, At: h.fleet.w.rec.Since()})
	p.leave()
	<-p.done
	p.cut()
}

// kill ends it permanently, as kill -9 does.
func (h *holder) kill() { h.end(Killed) }

// killed reports whether it was killed and has not come back.
func (h *holder) killed() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.now == nil && len(h.stops) > 0 && h.stops[len(h.stops)-1].How == Killed
}

func (h *holder) frozen(ctx context.Context, d time.Duration) {
	h.mu.Lock()
	p := h.now
	if p != nil {
		h.stops = append(h.stops, Stop{How: Frozen, At: h.fleet.w.rec.Since(), For: d})
	}
	h.mu.Unlock()
	if p == nil {
		return
	}
	thaw := p.freeze()
	_ = wait.Sleep(ctx, d)
	thaw()
}

func (h *holder) life() LeaseClient {
	h.mu.Lock()
	defer h.mu.Unlock()
	return LeaseClient{
		Holder:   h.kind,
		Name:     h.name,
		Process:  h.isProcess,
		Requests: h.tap.seen(),
		Stops:    append([]Stop(nil), h.stops...),
	}
}

// proxyTo returns a proxy to one peer, for clients that are processes: their requests go
// through the tap.
func (h *holder) proxyTo(to string) (*httputil.ReverseProxy, error) {
	u, err := url.Parse(to)
	if err != nil {
		return nil, err
	}
	return &httputil.ReverseProxy{Transport: h.tap, Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(u) }}, nil
}
