package chaos

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"google.golang.org/grpc"

	"github.com/holdfast-metal/holdfast/internal/localcluster"
	"github.com/holdfast-metal/holdfast/internal/wait"
	"github.com/holdfast-metal/holdfast/test/robustness/harness"
)

// Gaps are the interruptions that clients saw after one kill. Times are measured from the
// kill.
type Gaps struct {
	Writes      time.Duration // to the acknowledgement of a write
	Reads       time.Duration // until every survivor has answered a linearizable read made after the kill
	Stale       time.Duration // the longest between two stale reads answered by one surviving peer
	StaleFailed int           // stale reads that a surviving peer did not answer
	Runs        time.Duration // until every run in progress had moved
}

const (
	breath  = 2 * time.Second  // between a recovery and the next kill
	gapTime = 30 * time.Second // maximum wait for each of them
)

// KillLeaders kills the leader n times under load, each time after the last one is back,
// and measures the gaps.
func KillLeaders(ctx context.Context, c *harness.Cluster, n int) ([]Gaps, error) {
	l, err := startLoad(ctx, c)
	if err != nil {
		return nil, err
	}
	defer l.close()
	var all []Gaps
	for i := range n {
		_ = wait.Sleep(ctx, breath)
		g, err := l.kill(ctx)
		if err != nil {
			return all, fmt.Errorf("kill %d: %w", i+1, err)
		}
		c.Log.Info("killed the leader", "n", i+1, "writes", g.Writes.Round(time.Millisecond), "reads",
			g.Reads.Round(time.Millisecond),
			"stale", g.Stale.Round(time.Millisecond), "runs", g.Runs.Round(time.Millisecond))
		all = append(all, g)
	}
	return all, l.failure()
}

func (l *load) kill(ctx context.Context) (Gaps, error) {
	var g Gaps
	ctx, stop := context.WithTimeout(ctx, gapTime)
	defer stop()
	leader, err := l.cluster.Leader(ctx)
	if err != nil {
		return g, err
	}
	var survivors []*localcluster.Peer
	for _, p := range l.cluster.Peers() {
		if p != leader {
			survivors = append(survivors, p)
		}
	}
	stale, stopStale, err := l.readStale(ctx, survivors)
	if err != nil {
		return g, err
	}
	_ = wait.Sleep(ctx, 200*time.Millisecond)
	at := time.Now()
	if err := leader.Kill(); err != nil {
		return g, errors.Join(err, stopStale())
	}
	var wg sync.WaitGroup
	var errs [3]error
	wg.Go(func() { g.Writes, errs[0] = l.writesBack(ctx, at) })
	wg.Go(func() { g.Reads, errs[1] = l.readsBack(ctx, survivors, at) })
	wg.Go(func() { g.Runs, errs[2] = l.runsBack(ctx, at) })
	wg.Wait()
	if err := errors.Join(append(errs[:], stopStale())...); err != nil {
		return g, err
	}
	for _, s := range stale {
		g.Stale, g.StaleFailed = max(g.Stale, s.longest), g.StaleFailed+s.failed
	}
	if err := leader.Start(ctx); err != nil {
		return g, err
	}
	return g, l.cluster.WaitReady(ctx)
}

// writesBack returns the time until the end of the first write that began after a moment.
func (l *load) writesBack(ctx context.Context, at time.Time) (time.Duration, error) {
	err := l.poll(ctx, func() bool { return l.writer.first(at) > 0 })
	if err != nil {
		return 0, fmt.Errorf("no write was acknowledged: %w", err)
	}
	return l.writer.first(at), nil
}

// readsBack reads from each surviving peer until each has answered a read.
func (l *load) readsBack(ctx context.Context, peers []*localcluster.Peer, at time.Time) (time.Duration, error) {
	var mu sync.Mutex
	var wg sync.WaitGroup
	var most time.Duration
	var errs []error
	for _, p := range peers {
		wg.Go(func() {
			took, err := l.readBack(ctx, p, at)
			mu.Lock()
			defer mu.Unlock()
			most, errs = max(most, took), append(errs, err)
		})
	}
	wg.Wait()
	return most, errors.Join(errs...)
}

func (l *load) readBack(ctx context.Context, p *localcluster.Peer, at time.Time) (time.Duration, error) {
	conn, err := l.dial(p)
	if err != nil {
		return 0, err
	}
	defer func() { _ = conn.Close() }()
	for {
		err := l.read(ctx, conn, false)
		if err == nil {
			return time.Since(at), nil
		}
		if ctx.Err() != nil {
			return 0, fmt.Errorf("peer %s answered no linearizable read: %w", p.ID, err)
		}
		_ = wait.Sleep(ctx, tick)
	}
}

// runsBack blocks until every run in progress has moved or ended.
func (l *load) runsBack(ctx context.Context, at time.Time) (time.Duration, error) {
	var most time.Duration
	for _, r := range l.runners {
		if err := l.poll(ctx, func() bool { return r.moved(at) > 0 }); err != nil {
			return 0, fmt.Errorf("the run of %s has not moved: %w", r.machine, err)
		}
		most = max(most, r.moved(at))
	}
	return most, nil
}

func (l *load) poll(ctx context.Context, cond func() bool) error {
	for !cond() {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		_ = wait.Sleep(ctx, tick)
	}
	return nil
}

func (l *load) dial(p *localcluster.Peer) (*grpc.ClientConn, error) {
	return grpc.NewClient("passthrough:///"+p.GRPCAddr, grpc.WithTransportCredentials(l.cluster.Credentials()))
}
