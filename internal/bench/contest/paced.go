package contest

import (
	"context"
	"errors"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/holdfast-metal/holdfast/internal/bench/load"
)

// Paced makes calls at a fixed rate, whether they are answered soon or not (open loop). A latency
// counts from when the call was due, so a server that stops for a while does not hide it.
type Paced struct {
	*Calls
	Rate int // calls a second
}

// pacedAtOnce bounds the calls under way; those above it wait, which their latencies show.
const pacedAtOnce = 1024

// Run makes calls for a while. The first error ends it.
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

// Under is a Loader with other load beside it, whose latencies do not count.
type Under struct {
	Loader
	Beside Loader
}

// Run puts both under load for a while.
func (u *Under) Run(ctx context.Context, d time.Duration) (latencies []time.Duration, err error) {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		_, err := u.Beside.Run(ctx, d)
		return err
	})
	g.Go(func() (err error) {
		latencies, err = u.Loader.Run(ctx, d)
		return err
	})
	return latencies, g.Wait()
}
