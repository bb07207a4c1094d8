package localcluster

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
)

// Readiness is the answer of a peer at /readyz (docs/operating.md).
type Readiness struct {
	Ready        bool   `json:"-"`             // it answered 200
	Role         string `json:"role"`          // leader, follower or candidate
	Leader       string `json:"leader"`        // peer id; empty if it knows none
	AppliedIndex uint64 `json:"applied_index"` // of its own state
	Error        string `json:"error"`         // why it is not ready
}

// Readiness requests /readyz of the peer. It returns an error if the peer does not answer.
func (p *Peer) Readiness(ctx context.Context) (Readiness, error) {
	ctx, stop := context.WithTimeout(ctx, pollTimeout)
	defer stop()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.URL("/readyz"), nil)
	if err != nil {
		return Readiness{}, fmt.Errorf("ask peer %s whether it is ready: %w", p.ID, err)
	}
	res, err := p.http.Do(req)
	if err != nil {
		return Readiness{}, fmt.Errorf("ask peer %s whether it is ready: %w", p.ID, err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(io.LimitReader(res.Body, 64<<10))
	if err != nil {
		return Readiness{}, fmt.Errorf("ask peer %s whether it is ready: %w", p.ID, err)
	}
	r := Readiness{Ready: res.StatusCode == http.StatusOK}
	if err := json.Unmarshal(body, &r); err != nil {
		return Readiness{}, fmt.Errorf("read the answer of peer %s at /readyz (%s): %w", p.ID, res.Status, err)
	}
	return r, nil
}
