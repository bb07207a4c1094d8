package workload

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// ManualAgents are agents whose requests a test makes itself, each at a chosen moment and peer.
type ManualAgents struct {
	rec          *Recorder
	target       Target
	times        Leases
	token        string
	observations observations

	mu                  sync.Mutex
	taps                map[string]*tap
	order               []string
	noQuorum, disturbed []Span
}

// manualPool is the pool of these agents.
const manualPool = "manual"

// NewManualAgents creates a pool and a token for the agents. All peers must be healthy.
func NewManualAgents(ctx context.Context, rec *Recorder, t Target, times Leases) (*ManualAgents, error) {
	p := rec.peers[0]
	if _, err := p.pools.CreatePool(
		ctx, &holdfastv1.CreatePoolRequest{Pool: &holdfastv1.Pool{PoolId: manualPool}},
	); err != nil {
		return nil, fmt.Errorf("create the pool of agents: %w", err)
	}
	tok, err := p.access.CreateToken(ctx,
		&holdfastv1.CreateTokenRequest{Name: manualPool, Role: holdfastv1.Role_POOL_AGENT, Pools: []string{manualPool}})
	if err != nil {
		return nil, fmt.Errorf("create the token of agents: %w", err)
	}
	return &ManualAgents{rec: rec, target: t, times: times, token: tok.GetSecret(), taps: map[string]*tap{}}, nil
}

// Register registers an agent at a peer.
func (h *ManualAgents) Register(ctx context.Context, peer int, id string) (Request, error) {
	return h.post(ctx, peer, id, "/api/v1/machine/register",
		map[string]string{"machine_id": id, "hostname": id, "pool_name": manualPool,
			"cpu": "1000m", "memory": "1Gi", "gpu_count": "0", "private_ip": "10.0.0.1"})
}

// Heartbeat sends a keepalive.
func (h *ManualAgents) Heartbeat(ctx context.Context, peer int, id string) (Request, error) {
	return h.post(ctx, peer, id, "/api/v1/machine/keepalive",
		map[string]string{"machine_id": id, "pool_name": manualPool})
}

func (h *ManualAgents) post(ctx context.Context, peer int, id, path string, body map[string]string) (Request, error) {
	h.mu.Lock()
	t := h.taps[id]
	if t == nil {
		t = newTap(h.target, h.rec)
		h.taps[id], h.order = t, append(h.order, id)
	}
	h.mu.Unlock()
	b, err := json.Marshal(body)
	if err != nil {
		return Request{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, h.target.URLs[peer]+path, strings.NewReader(string(b)))
	if err != nil {
		return Request{}, err
	}
	req.Header.Set("Authorization", "Bearer "+h.token)
	req.Header.Set("Content-Type", "application/json")
	resp, err := t.RoundTrip(req)
	if err == nil {
		err = resp.Body.Close()
	}
	all := t.seen()
	request := all[len(all)-1]
	if err == nil && request.Outcome != OK {
		err = fmt.Errorf("%s of %s at peer %d: %d %s", request.Kind, id, peer, request.Status, request.Why)
	}
	return request, err
}

// Read reads all agents, with a linearizable read at a peer, and returns the condition of
// one.
func (h *ManualAgents) Read(ctx context.Context, peer int, id string) (Condition, error) {
	all, err := h.rec.observe(ctx, peer, Machine, names{pool: manualPool})
	if err != nil {
		return "", err
	}
	h.observations.add(all)
	for _, s := range all {
		if s.ID == id {
			return s.State, nil
		}
	}
	return "", nil
}

// NoQuorum records that there can be no leader until the returned function is called.
func (h *ManualAgents) NoQuorum() (over func()) { return h.span(&h.noQuorum) }

// Disturbed records that something is broken until the returned function is called.
func (h *ManualAgents) Disturbed() (over func()) { return h.span(&h.disturbed) }

func (h *ManualAgents) span(of *[]Span) func() {
	from := h.rec.Since()
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		*of = append(*of, Span{from, h.rec.Since()})
	}
}

// Fleet reads all agents once more, and returns their history.
func (h *ManualAgents) Fleet(ctx context.Context) (*Fleet, error) {
	last, err := h.rec.observe(ctx, 0, Machine, names{pool: manualPool})
	if err != nil {
		return nil, fmt.Errorf("read all agents: %w", err)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	f := &Fleet{LeaseTimes: h.times, Observations: h.observations.seen(), Last: last,
		NoQuorum: h.noQuorum, Disturbed: h.disturbed}
	for _, id := range h.order {
		f.Clients = append(f.Clients, LeaseClient{Holder: Machine, Name: id, Requests: h.taps[id].seen()})
	}
	return f, nil
}
