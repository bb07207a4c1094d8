package load

import (
	"context"
	"net/http"
	"sync"
	"time"
)

// maxWires bounds the connections to one peer. A keepalive of a large fleet takes up to a second,
// which makes 600 concurrent ones.
const maxWires = 1200

// Heartbeats is a fleet whose agents send heartbeats at a fixed rate, evenly distributed over the
// period, without waiting for responses.
type Heartbeats struct {
	Agents []Agent
	Peers  []*Wires // agent i reports to peer i modulo their number
	Period time.Duration

	mu        sync.Mutex
	latencies []time.Duration // from the due time of a heartbeat to its response
	failed    int
	failure   error // one of the failures
	intervals []time.Duration
}

// Run sends heartbeats until ctx ends, and then waits for outstanding responses.
func (b *Heartbeats) Run(ctx context.Context) {
	gap := b.Period / time.Duration(len(b.Agents))
	s := &Schedule{
		Members: len(b.Agents), AtOnce: maxWires * len(b.Peers),
		First: func(i int) time.Duration { return time.Duration(i) * gap },
		Call: func(ctx context.Context, i int, due time.Time) time.Duration {
			b.send(ctx, i, due)
			return b.Period
		},
	}
	s.Run(ctx)
}

// send sends one keepalive.
func (b *Heartbeats) send(ctx context.Context, i int, due time.Time) {
	p := b.Peers[i%len(b.Peers)]
	status, body, err := p.Post(ctx, b.Agents[i].Keepalive(nil, p.Addr))
	took := time.Since(due)
	b.mu.Lock()
	defer b.mu.Unlock()
	if err != nil || status != http.StatusOK {
		b.failed++
		b.failure = Wrong(status, body, err)
		return
	}
	b.latencies = append(b.latencies, took)
	b.intervals = append(b.intervals, Interval(body))
}

// Reset returns the counts and resets them.
func (b *Heartbeats) Reset() (latencies []time.Duration, failed int, failure error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	latencies, failed, failure = b.latencies, b.failed, b.failure
	b.latencies, b.intervals, b.failed, b.failure = nil, nil, 0, nil
	return latencies, failed, failure
}
