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

// Hands are agents whose requests a test makes itself, each at a chosen moment and peer.
type Hands struct {
	rec    *Recorder
	target Target
	terms  Leases
	token  string
	sights sights

	mu           sync.Mutex
	taps         map[string]*tap
	order        []string
	deaf, unrest []Span
}

// handsPool is the pool of these agents.
const handsPool = "hands"

// NewHands creates a pool and a token for the agents. All peers must be healthy.
func NewHands(ctx context.Context, rec *Recorder, t Target, terms Leases) (*Hands, error) {
	p := rec.peers[0]
	if _, err := p.pools.CreatePool(
		ctx, &holdfastv1.CreatePoolRequest{Pool: &holdfastv1.Pool{PoolId: handsPool}},
	); err != nil {
		return nil, fmt.Errorf("create the pool of agents: %w", err)
	}
	tok, err := p.access.CreateToken(ctx,
		&holdfastv1.CreateTokenRequest{Name: handsPool, Role: holdfastv1.Role_POOL_AGENT, Pools: []string{handsPool}})
	if err != nil {
		return nil, fmt.Errorf("create the token of agents: %w", err)
	}
	return &Hands{rec: rec, target: t, terms: terms, token: tok.GetSecret(), taps: map[string]*tap{}}, nil
}

// Register registers an agent at a peer.
func (h *Hands) Register(ctx context.Context, peer int, id string) (Trip, error) {
	return h.post(ctx, peer, id, "/api/v1/machine/register",
		map[string]string{"machine_id": id, "hostname": id, "pool_name": handsPool,
			"cpu": "1000m", "memory": "1Gi", "gpu_count": "0", "private_ip": "10.0.0.1"})
}

// Beat sends a keepalive.
func (h *Hands) Beat(ctx context.Context, peer int, id string) (Trip, error) {
	return h.post(ctx, peer, id, "/api/v1/machine/keepalive",
		map[string]string{"machine_id": id, "pool_name": handsPool})
}

func (h *Hands) post(ctx context.Context, peer int, id, path string, body map[string]string) (Trip, error) {
	h.mu.Lock()
	t := h.taps[id]
	if t == nil {
		t = newTap(h.target, h.rec)
		h.taps[id], h.order = t, append(h.order, id)
	}
	h.mu.Unlock()
	b, err := json.Marshal(body)
	if err != nil {
		return Trip{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, h.target.URLs[peer]+path, strings.NewReader(string(b)))
	if err != nil {
		return Trip{}, err
	}
	req.Header.Set("Authorization", "Bearer "+h.token)
	req.Header.Set("Content-Type", "application/json")
	resp, err := t.RoundTrip(req)
	if err == nil {
		err = resp.Body.Close()
	}
	all := t.seen()
	trip := all[len(all)-1]
	if err == nil && trip.Outcome != OK {
		err = fmt.Errorf("%s of %s at peer %d: %d %s", trip.Kind, id, peer, trip.Status, trip.Why)
	}
	return trip, err
}

// Look reads all agents, with a linearizable read at a peer, and returns the condition of
// one.
func (h *Hands) Look(ctx context.Context, peer int, id string) (Condition, error) {
	all, err := h.rec.sight(ctx, peer, Machine, names{pool: handsPool})
	if err != nil {
		return "", err
	}
	h.sights.add(all)
	for _, s := range all {
		if s.ID == id {
			return s.State, nil
		}
	}
	return "", nil
}

// Deaf records that there can be no leader until the returned function is called.
func (h *Hands) Deaf() (over func()) { return h.span(&h.deaf) }

// Unrest records that something is broken until the returned function is called.
func (h *Hands) Unrest() (over func()) { return h.span(&h.unrest) }

func (h *Hands) span(of *[]Span) func() {
	from := h.rec.Since()
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		*of = append(*of, Span{from, h.rec.Since()})
	}
}

// Fleet reads all agents once more, and returns their history.
func (h *Hands) Fleet(ctx context.Context) (*Fleet, error) {
	last, err := h.rec.sight(ctx, 0, Machine, names{pool: handsPool})
	if err != nil {
		return nil, fmt.Errorf("read all agents: %w", err)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	f := &Fleet{Terms: h.terms, Sights: h.sights.seen(), Last: last, Deaf: h.deaf, Unrest: h.unrest}
	for _, id := range h.order {
		f.Lives = append(f.Lives, Life{Holder: Machine, Name: id, Trips: h.taps[id].seen()})
	}
	return f, nil
}
