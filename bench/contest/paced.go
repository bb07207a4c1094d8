package contest

import (
	"context"
	"errors"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/holdfast-metal/holdfast/bench/load"
)

// Paced makes calls at a fixed rate without waiting for responses (open loop). Latencies count from
// the due time of a call, so that pauses of the server are visible.
type Paced struct {
	*Calls
	Rate int // calls per second
}

// pacedAtOnce bounds the concurrent calls. Others wait, which counts as latency.
const pacedAtOnce = 1024

// Run makes calls for a time. The first error ends it.
func (p *Paced) Run(ctx context.Context, d time.Duration) ([]time.Duration, error) {
	ctx, stop := context.WithTimeout(ctx, d)
	defer stop()
	var mu sync.Mutex
	var latencies []time.Duration
	var failed error
	gap := time.Second / time.Duration(p.Rate)
	s := &load.Schedule{
		Members: p.Rate, AtOnce: pacedAtOnce,
		First: func(i int) time.Duration { return time.Duration(i) * gap },
		Call: func(ctx context.Context, i int, due time.Time) time.Duration {
			err := p.timed(ctx, p.conns[i%len(p.conns)])
			took := time.Since(due)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				failed = errors.Join(failed, err)
				stop()
				return load.Never
			}
			latencies = append(latencies, took)
			return time.Duration(p.Rate) * gap
		},
	}
	s.Run(ctx)
	return latencies, failed
}

// Under is a Loader with other load, whose latencies do not count.
type Under struct {
	Loader
	Background Loader
}

// Run runs both loads for a time.
func (u *Under) Run(ctx context.Context, d time.Duration) (latencies []time.Duration, err error) {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		_, err := u.Background.Run(ctx, d)
		return err
	})
	g.Go(func() (err error) {
		latencies, err = u.Loader.Run(ctx, d)
		return err
	})
	return latencies, g.Wait()
}
