package machine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"sync"
	"time"
)

// gateway implements the machine API of specification 000, with one machine and no additions. It
// may have several addresses.
type gateway struct {
	token string
	pool  string
	ttl   time.Duration // zero: 300 s
	extra string        // further members of machine_state, "," first

	mu        sync.Mutex
	status    string // "", registered, ready
	expires   time.Time
	registers []time.Time
	keeps     []time.Time
	expired   int // number of expiries
	lastReg   map[string]any
	lastKeep  map[string]any
	bad       []string // deviations of requests from the document
}

func (g *gateway) lifetime() time.Duration {
	if g.ttl == 0 {
		return 300 * time.Second
	}
	return g.ttl
}

func (g *gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if r.Method != http.MethodPost || r.Header.Get("Content-Type") != "application/json" {
		g.bad = append(g.bad, r.Method+" with Content-Type "+r.Header.Get("Content-Type"))
	}
	switch r.Header.Get("Authorization") {
	case "Bearer " + g.token:
	case "":
		answer(w, 401, `{"message":"Unauthorized"}`)
		return
	case "Bearer foreign":
		answer(w, 403, `{"message":"Invalid token", "error_code":"invalid_token"}`)
		return
	default:
		answer(w, 401, `{"message":"Unauthorized"}`)
		return
	}
	var body map[string]any
	if json.NewDecoder(r.Body).Decode(&body) != nil {
		answer(w, 400, `{"message":"Invalid payload"}`)
		return
	}
	switch r.URL.Path {
	case "/api/v1/machine/register":
		g.register(w, body)
	case "/api/v1/machine/keepalive":
		g.keepalive(w, body)
	default:
		answer(w, 404, `{"message":"Not Found"}`)
	}
}

func (g *gateway) register(w http.ResponseWriter, body map[string]any) {
	g.lastReg = body
	for name, form := range map[string]string{
		"token": ".*", "machine_id": ".", "hostname": ".", "pool_name": ".", "private_ip": ".",
		"cpu": "^[0-9]+m$", "memory": "^[0-9]+(Ki|Mi|Gi)$", "gpu_count": "^[0-9]+$",
	} {
		if s, ok := body[name].(string); !ok || !regexp.MustCompile(form).MatchString(s) {
			g.bad = append(g.bad, fmt.Sprintf("register: %s is %v", name, body[name]))
			answer(w, 400, `{"message":"Invalid payload"}`)
			return
		}
	}
	if body["pool_name"] != g.pool {
		answer(w, 500, `{"message":"Invalid pool name"}`)
		return
	}
	g.registers = append(g.registers, time.Now())
	g.status, g.expires = "registered", time.Now().Add(g.lifetime())
	answer(w, 200, fmt.Sprintf(`{"config":null,"machine_state":{"machine_id":%q,"status":"registered","pool_name":%q,"ttl_seconds":%d%s}}`,
		body["machine_id"], g.pool, g.lifetime()/time.Second, g.extra))
}

func (g *gateway) keepalive(w http.ResponseWriter, body map[string]any) {
	g.lastKeep = body
	if body["machine_id"] == nil || body["pool_name"] == nil {
		answer(w, 400, `{"message":"machine_id and pool_name are required"}`)
		return
	}
	if g.status != "" && time.Now().After(g.expires) {
		g.status = ""
		g.expired++
	}
	if g.status == "" {
		answer(w, 500, `{"message":"Machine state expired","error_code":"machine_not_found","suggestion":"register again"}`)
		return
	}
	g.keeps = append(g.keeps, time.Now())
	g.status, g.expires = "ready", time.Now().Add(g.lifetime())
	version, _ := body["agent_version"].(string)
	answer(w, 200, fmt.Sprintf(`{"status":"ok","machine_state":{"machine_id":%q,"status":"ready","last_keepalive":%q,"ttl_seconds":%d,"agent_version":%q%s}}`,
		body["machine_id"], strconv.FormatInt(time.Now().Unix(), 10), g.lifetime()/time.Second, version, g.extra))
}

// forget removes the machine from the gateway.
func (g *gateway) forget() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.status = ""
}

// counts returns the numbers of registrations and keepalives.
func (g *gateway) counts() (registers, keeps int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.registers), len(g.keeps)
}

func answer(w http.ResponseWriter, status int, body string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, body)
}

// box is a Source that a test can change.
type box struct {
	mu      sync.Mutex
	specs   Specs
	err     error
	metrics *Metrics
}

func (b *box) Specs(context.Context) (Specs, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.specs, b.err
}

func (b *box) Metrics(context.Context) (Metrics, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.metrics == nil {
		return Metrics{}, errors.New("not measured yet")
	}
	return *b.metrics, nil
}

func (b *box) change(f func(*box)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	f(b)
}

// worker returns the machine of the document.
func worker() *box {
	return &box{
		specs: Specs{Hostname: "gpu-worker-1", PrivateIP: "192.168.1.100", CPUMillicores: 8000, MemoryMiB: 16384,
			GPUCount: 1},
		metrics: &Metrics{CPUUtilizationPct: 15.5, MemoryUtilizationPct: 42.3, TotalCPUAvailable: 8000,
			TotalMemoryAvailable: 16384, FreeGPUCount: new(1)},
	}
}
