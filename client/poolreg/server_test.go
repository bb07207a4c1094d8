package poolreg

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-metal/holdfast/client/internal/resttest"
)

// orchestratord implements the pool API of specification 001 for one pool. It may have several
// addresses.
type orchestratord struct {
	token    string // empty: none is needed
	interval int    // interval in answers, in milliseconds; zero: none

	mu            sync.Mutex
	known         bool
	registers     []map[string]any
	heartbeats    []time.Time
	lastHeartbeat map[string]any
	deregisters   []map[string]any
	bad           []string // deviations of requests from the document
	providers     []map[string]any
}

func (o *orchestratord) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.token != "" && r.Header.Get("Authorization") != "Bearer "+o.token {
		w.WriteHeader(401)
		return
	}
	if r.Method != http.MethodPost || r.Header.Get("Content-Type") != "application/json" {
		o.bad = append(o.bad, r.Method+" with Content-Type "+r.Header.Get("Content-Type"))
	}
	var body map[string]any
	if json.NewDecoder(r.Body).Decode(&body) != nil {
		w.WriteHeader(400)
		return
	}
	switch r.URL.Path {
	case "/v2/pools/register":
		o.known = true
		o.registers = append(o.registers, body)
		fmt.Fprintf(w, `{"pool_id":"pool-1","status":"registered"%s}`, o.asks("heartbeat_interval_ms"))
	case "/v2/pools/pool-1/heartbeat":
		if body["pool_id"] != "pool-1" {
			w.WriteHeader(400)
			return
		}
		if !o.known {
			w.WriteHeader(404)
			_, _ = io.WriteString(w, `{"error":"pool_not_found","message":"register first"}`)
			return
		}
		o.heartbeats = append(o.heartbeats, time.Now())
		o.lastHeartbeat = body
		fmt.Fprintf(w, `{"status":"healthy"%s}`, o.asks("next_heartbeat_ms"))
	case "/v2/pools/pool-1/deregister":
		o.known = false
		o.deregisters = append(o.deregisters, body)
		_, _ = io.WriteString(w, `{"pool_id":"pool-1","status":"draining"}`)
	case "/v2/platform/providers/register":
		o.providers = append(o.providers, body)
		fmt.Fprintf(w, `{"provider_id":%q,"status":"registered","platform_margin_percent":15.0}`, body["provider_id"])
	default:
		o.bad = append(o.bad, r.URL.Path)
		w.WriteHeader(404)
	}
}

func (o *orchestratord) asks(member string) string {
	if o.interval == 0 {
		return ""
	}
	return fmt.Sprintf(`,%q:%d`, member, o.interval)
}

// forget removes the pool, like a restart.
func (o *orchestratord) forget() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.known = false
}

// sent returns the number of accepted heartbeats.
func (o *orchestratord) sent() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.heartbeats)
}

func (o *orchestratord) ask(interval int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.interval = interval
}

// source is a Source that a test can change.
type source struct {
	mu    sync.Mutex
	state State
	err   error
}

func (s *source) State(context.Context) (State, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state, s.err
}

func (s *source) change(f func(*source)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f(s)
}

// gpus returns the pool of the document.
func gpus() *source {
	return &source{state: State{
		GPUs: []GPU{{
			ID: 0, Model: "RTX 4090", TotalVRAMGB: new(24), ComputeCapability: "8.9",
			AvailableVRAMGB: new(8), Workers: []string{"worker-abc"}, TemperatureCelsius: new(65),
		}},
		WorkersTotal: 1, WorkersReady: 1, Uptime: time.Hour,
	}}
}

func cluster(o *orchestratord) *resttest.Network {
	n := new(resttest.Network)
	for _, host := range hosts() {
		n.Serve(host, o.ServeHTTP)
	}
	return n
}

func hosts() []string { return []string{"a", "b", "c"} }

var errNoGPUs = errors.New("nvidia-smi hangs")

// decode reads a JSON object of the document.
func decode(text string) map[string]any {
	var m map[string]any
	if err := json.NewDecoder(strings.NewReader(text)).Decode(&m); err != nil {
		panic(err)
	}
	return m
}
