package hedge

import (
	"context"
	"time"
)

// Race calls try for target 0 of n. It calls try for each further target when those before
// have failed or have not answered in the time set by pace. It passes the results to judge,
// one at a time. When judge accepts one, Race cancels the other tries, waits for them and
// returns the targets that were tried before the winner and had not answered.
func Race[T any](
	ctx context.Context, pace *Pace, n int,
	try func(ctx context.Context, target int) T, judge func(target int, result T) bool,
) (late []int) {
	if n == 1 {
		judge(0, try(ctx, 0)) // there is no other target
		return nil
	}
	r := &race[T]{n: n, try: try, results: make(chan result[T], n), open: make([]bool, n)}
	r.ctx, r.cancel = context.WithCancel(ctx) //nolint:gosec // end calls it
	defer r.end()
	r.begin()
	after := pace.After(ctx, n)
	timer := time.NewTimer(after)
	defer timer.Stop()
	hedged := false
	for {
		select {
		case <-timer.C:
			if r.begun < n {
				hedged = true
				r.begin()
				timer.Reset(after)
			}
		case got := <-r.results:
			r.open[got.target] = false
			r.ended++
			if judge(got.target, got.value) {
				late = r.before(got.target)
				if hedged && len(late) == 0 {
					pace.inVain()
				} else {
					pace.helped()
				}
				return late
			}
			if ctx.Err() == nil && r.begun < n {
				r.begin()
				timer.Reset(after)
			}
			if r.ended == r.begun {
				if hedged {
					pace.inVain()
				}
				return nil
			}
		}
	}
}

type result[T any] struct {
	target int
	value  T
}

// race is one request to several targets.
type race[T any] struct {
	ctx     context.Context
	cancel  context.CancelFunc
	n       int
	try     func(context.Context, int) T
	results chan result[T]
	begun   int
	ended   int
	open    []bool // by target: begun and not ended
}

// begin tries the next target.
func (r *race[T]) begin() {
	target := r.begun
	r.begun++
	r.open[target] = true
	go func() { r.results <- result[T]{target, r.try(r.ctx, target)} }()
}

// end cancels the tries in progress and waits for them, so that none outlives Race.
func (r *race[T]) end() {
	r.cancel()
	for ; r.ended < r.begun; r.ended++ {
		<-r.results
	}
}

// before returns the targets before the given one that have not answered.
func (r *race[T]) before(target int) (late []int) {
	for t := range target {
		if r.open[t] {
			late = append(late, t)
		}
	}
	return late
}
