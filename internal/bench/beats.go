package bench

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/holdfast-metal/holdfast/internal/bench/load"
)

// beats is a fleet whose agents beat at even distances, whether they are answered soon or not: each
// at its own time of the period.
type beats struct {
	agents []load.Agent
	peers  []*load.Wires // agent i reports to peer i modulo their number
	period time.Duration

	mu        sync.Mutex
	latencies []time.Duration // from when a beat was due to its answer
	failed    int
	failure   error // one of those
	intervals []time.Duration
}

// run lets the fleet beat until ctx ends, and then waits for the answers that are outstanding.
func (b *beats) run(ctx context.Context) {
	gap := b.period / time.Duration(len(b.agents))
	s := &load.Schedule{
		Members: len(b.agents), AtOnce: maxWires * len(b.peers),
		First: func(i int) time.Duration { return time.Duration(i) * gap },
		Call: func(ctx context.Context, i int, due time.Time) time.Duration {
			b.beat(ctx, i, due)
			return b.period
		},
	}
	s.Run(ctx)
}

// beat is one keepalive.
func (b *beats) beat(ctx context.Context, i int, due time.Time) {
	p := b.peers[i%len(b.peers)]
	status, body, err := p.Post(ctx, b.agents[i].Keepalive(nil, p.Addr))
	took := time.Since(due)
	b.mu.Lock()
	defer b.mu.Unlock()
	if err != nil || status != http.StatusOK {
		b.failed++
		b.failure = load.Wrong(status, body, err)
		return
	}
	b.latencies = append(b.latencies, took)
	b.intervals = append(b.intervals, load.Interval(body))
}

// reset forgets what was counted, and gives it.
func (b *beats) reset() (latencies []time.Duration, failed int, failure error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	latencies, failed, failure = b.latencies, b.failed, b.failure
	b.latencies, b.intervals, b.failed, b.failure = nil, nil, 0, nil
	return latencies, failed, failure
}
