package fault

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfast-metal/holdfast/client"
	"github.com/holdfast-metal/holdfast/internal/wait"
	"github.com/holdfast-metal/holdfast/test/robustness/harness"
)

// alone makes calls to the last peer of a cluster without a majority.
type alone struct {
	stop context.CancelFunc
	wg   sync.WaitGroup

	mu                   sync.Mutex
	writes, reads, stale int // calls with the expected result
	errs                 []error
}

// quorumLoss kills all peers but one, the leader or another. The last one must refuse
// writes and linearizable reads with a reason, and still answer stale reads.
func quorumLoss(ctx context.Context, c *harness.Cluster, rng *rand.Rand) (Heal, error) {
	leader, err := c.LeaderNow(ctx)
	if err != nil {
		return nil, err
	}
	peers := c.Peers()
	last := peers[leader]
	if rng.IntN(2) == 0 {
		last = peers[(leader+1)%len(peers)]
	}
	k, err := c.Caller(last, "")
	if err != nil {
		return nil, err
	}
	if _, err := k.Stale(ctx); err != nil { // connect first
		k.Close()
		return nil, err
	}
	var start []func(context.Context) error
	for _, p := range peers {
		if p != last {
			err = errors.Join(err, p.Kill())
			start = append(start, p.Start)
		}
	}
	a := &alone{}
	background, stop := context.WithCancel(context.WithoutCancel(ctx))
	a.stop = stop
	for _, ask := range []func(context.Context, *harness.Caller){a.write, a.read, a.readStale} {
		a.wg.Go(func() {
			for background.Err() == nil {
				ask(background, k)
				_ = wait.Sleep(background, 10*time.Millisecond)
			}
		})
	}
	return func(ctx context.Context) error {
		a.stop()
		a.wg.Wait()
		k.Close()
		c.Log.Info("there was no majority", "last", last.ID, "led", last == peers[leader],
			"writes_refused", a.writes, "reads_refused", a.reads, "stale_reads", a.stale)
		errs := []error{a.check()}
		for _, s := range start {
			errs = append(errs, s(ctx))
		}
		return errors.Join(errs...)
	}, err
}

func (a *alone) write(ctx context.Context, k *harness.Caller) {
	_, err := k.Write(ctx)
	a.refusal(ctx, "write", &a.writes, err)
}

func (a *alone) read(ctx context.Context, k *harness.Caller) {
	_, err := k.Read(ctx)
	a.refusal(ctx, "linearizable read", &a.reads, err)
}

// refusal checks the response to an impossible call: UNAVAILABLE with a reason, in time. A
// machine that is too busy to respond in time is no failure, unless it never responds.
func (a *alone) refusal(ctx context.Context, what string, count *int, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch code := status.Code(err); {
	case ctx.Err() != nil && code == codes.Canceled, code == codes.DeadlineExceeded:
	case code == codes.Unavailable && client.Reason(err) != "":
		*count++
	case err == nil:
		a.errs = append(a.errs,
			fmt.Errorf("without a majority a %s was answered with OK, want UNAVAILABLE and a reason", what))
	default:
		a.errs = append(a.errs,
			fmt.Errorf("without a majority a %s was answered with %s (%w), want UNAVAILABLE and a reason", what, code,
				err))
	}
}

func (a *alone) readStale(ctx context.Context, k *harness.Caller) {
	_, err := k.Stale(ctx)
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case err == nil:
		a.stale++
	case ctx.Err() == nil:
		a.errs = append(a.errs, fmt.Errorf("without a majority a stale read failed: %w", err))
	}
}

func (a *alone) check() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.errs) > 0 {
		return errors.Join(a.errs[:min(len(a.errs), 5)]...)
	}
	if a.writes == 0 || a.reads == 0 || a.stale == 0 {
		return fmt.Errorf("without a majority %d writes and %d reads were refused, "+
			"and %d stale reads answered: want some of each", a.writes, a.reads, a.stale)
	}
	return nil
}
