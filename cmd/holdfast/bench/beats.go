package bench

import (
	"context"
	"net/http"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

// beats is a fleet whose agents beat at even distances, whether they are answered soon or not: each at its own time of the period.
type beats struct {
	agents []agent
	peers  []*wires // agent i reports to peer i modulo their number
	period time.Duration

	mu        sync.Mutex
	latencies []time.Duration // from when a beat was due to its answer
	failed    int
	failure   error // one of those
	intervals []time.Duration
}

// run lets the fleet beat until ctx ends, and then waits for the answers that are outstanding.
func (b *beats) run(ctx context.Context) error {
	ask, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	var g errgroup.Group
	began := time.Now()
	gap := b.period / time.Duration(len(b.agents))
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for sent := 0; ; {
		select {
		case <-ctx.Done():
			return g.Wait()
		case now := <-tick.C:
			for due := began.Add(time.Duration(sent) * gap); !due.After(now); due = began.Add(time.Duration(sent) * gap) {
				i := sent % len(b.agents)
				g.Go(func() error {
					b.beat(ask, i, due)
					return nil
				})
				sent++
			}
		}
	}
}

// beat is one keepalive.
func (b *beats) beat(ctx context.Context, i int, due time.Time) {
	p := b.peers[i%len(b.peers)]
	status, body, err := p.post(ctx, b.agents[i].keepalive(nil, p.addr))
	took := time.Since(due)
	b.mu.Lock()
	defer b.mu.Unlock()
	if err != nil || status != http.StatusOK {
		b.failed++
		b.failure = wrong(status, body, err)
		return
	}
	b.latencies = append(b.latencies, took)
	b.intervals = append(b.intervals, interval(body))
}

// reset forgets what was counted, and gives it.
func (b *beats) reset() (latencies []time.Duration, failed int, failure error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	latencies, failed, failure = b.latencies, b.failed, b.failure
	b.latencies, b.intervals, b.failed, b.failure = nil, nil, 0, nil
	return latencies, failed, failure
}
