package mutant

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/holdfast-metal/holdfast/test/robustness/check"
	"github.com/holdfast-metal/holdfast/test/robustness/workload"
)

// pausedLeader stops the leader's process again and again, lets another peer lead and write, sends reads into the
// socket of the one that is stopped, and lets it go on: none of them may be answered with what it remembers.
func pausedLeader() Scenario {
	return Scenario{"the leader is stopped and goes on", func(ctx context.Context, e Env) ([]error, error) {
		b, err := e.open(ctx)
		if err != nil {
			return nil, err
		}
		defer func() { _ = b.close() }()
		const rounds = 40
		for round := range rounds {
			if err := b.pauseOnce(ctx, round); err != nil {
				return nil, err
			}
			if found := check.Order(b.rec.History(machineID)); len(found) > 0 {
				return []error{fmt.Errorf("order: %w", found[0])}, nil
			}
		}
		return b.truth(ctx, machineID)
	}}
}

func (b *bench) pauseOnce(ctx context.Context, round int) error {
	if err := b.Steady(ctx); err != nil {
		return err
	}
	old, err := b.mustWrite(ctx, fmt.Sprintf("before-%d", round))
	if err != nil {
		return err
	}
	busy, stop := context.WithCancel(ctx)
	defer stop()
	var wg sync.WaitGroup
	defer wg.Wait()
	defer stop()
	read := func(client int) {
		b.rec.GetMachine(context.WithoutCancel(ctx), workload.Op{Client: client, Peer: old + 3*(client%lines), Machine: machineID}, callTime)
	}
	for c := range 16 {
		wg.Go(func() {
			for busy.Err() == nil {
				read(1 + c)
			}
		})
	}
	if err := sleep(ctx, 100*time.Millisecond); err != nil {
		return err
	}
	leader := b.Peers()[old]
	if err := leader.Pause(); err != nil {
		return err
	}
	_, err = b.mustWrite(ctx, fmt.Sprintf("while-%d", round))
	if err == nil {
		for c := range 64 {
			wg.Go(func() { read(100 + c) })
		}
		err = sleep(ctx, 100*time.Millisecond)
	}
	if rerr := leader.Resume(); err == nil {
		err = rerr
	}
	if err != nil {
		return err
	}
	return sleep(ctx, 100*time.Millisecond)
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// readElsewhere writes at the leader and reads at the others right after that.
func readElsewhere() Scenario {
	return Scenario{"a read follows a write to another peer", func(ctx context.Context, e Env) ([]error, error) {
		b, err := e.open(ctx)
		if err != nil {
			return nil, err
		}
		defer func() { _ = b.close() }()
		for n := range 100 {
			at, err := b.mustWrite(ctx, fmt.Sprint(n))
			if err != nil {
				return nil, err
			}
			for i := 1; i < len(b.Peers()); i++ {
				b.rec.GetMachine(ctx, workload.Op{Client: i, Peer: (at + i) % len(b.Peers()), Machine: machineID}, callTime)
			}
		}
		return b.truth(ctx, machineID)
	}}
}
