package load

import (
	"context"
	"net/http"
	"sync"
	"time"
)

// maxWires bounds the connections to one peer. A keepalive of such a fleet takes up to a second:
// that is 600 of them.
const maxWires = 1200

// Beats is a fleet whose agents beat at even distances, whether they are answered soon or not: each
// at its own time of the period.
type Beats struct {
	Agents []Agent
	Peers  []*Wires // agent i reports to peer i modulo their number
	Period time.Duration

	mu        sync.Mutex
	latencies []time.Duration // from when a beat was due to its answer
	failed    int
	failure   error // one of those
	intervals []time.Duration
}

// Run lets the fleet beat until ctx ends, and then waits for the answers that are outstanding.
func (b *Beats) Run(ctx context.Context) {
	gap := b.Period / time.Duration(len(b.Agents))
	s := &Schedule{
		Members: len(b.Agents), AtOnce: maxWires * len(b.Peers),
		First: func(i int) time.Duration { return time.Duration(i) * gap },
		Call: func(ctx context.Context, i int, due time.Time) time.Duration {
			b.beat(ctx, i, due)
			return b.Period
		},
	}
	s.Run(ctx)
}

// beat is one keepalive.
func (b *Beats) beat(ctx context.Context, i int, due time.Time) {
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

// Reset forgets what was counted, and gives it.
func (b *Beats) Reset() (latencies []time.Duration, failed int, failure error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	latencies, failed, failure = b.latencies, b.failed, b.failure
	b.latencies, b.intervals, b.failed, b.failure = nil, nil, 0, nil
	return latencies, failed, failure
}
