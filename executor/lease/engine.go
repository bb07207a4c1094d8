package lease

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/holdfast-metal/holdfast/cluster/leader"
	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// Config tunes an Engine. The zero value is the default everywhere.
type Config struct {
	Sweep      time.Duration         // interval between checks of the deadlines. Default 250 ms
	ClockEvery time.Duration         // interval between commits of the lease clock while there are leases. Default 2 s
	Now        func() time.Time      // the cluster's time, which dates the answers. Default time.Now
	Logger     *slog.Logger          // default: none
	Registerer prometheus.Registerer // default: none
}

// Proposer commits commands (cluster.Peer).
type Proposer interface {
	Apply(ctx context.Context, cmd *internalv1.Command) (fsm.Result, error)
}

// State is the leader's own FSM.
type State interface {
	View() *fsm.View
}

// Engine is the leader task that tracks the leases and expires them.
type Engine struct {
	cfg      Config
	proposer Proposer
	state    State
	current  atomic.Pointer[termState]
	metrics  *metrics
}

// NewEngine returns an Engine; Run it in each term.
func NewEngine(cfg Config, p Proposer, s State) *Engine {
	cfg.Sweep = cmp.Or(cfg.Sweep, 250*time.Millisecond)
	cfg.ClockEvery = cmp.Or(cfg.ClockEvery, 2*time.Second)
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	e := &Engine{cfg: cfg, proposer: p, state: s}
	e.metrics = newMetrics(cfg.Registerer, e)
	return e
}

// Run tracks the leases until the term ends. It implements leader.Task.
func (e *Engine) Run(ctx context.Context, t leader.Term) error {
	ts := newTermState(e, t)
	e.current.Store(ts)
	defer func() {
		e.current.CompareAndSwap(ts, nil)
		ts.end()
	}()
	e.cfg.Logger.Info("lease engine started", "term", t.Epoch, "leases", ts.live(), "clock", ts.began)
	g, gctx := errgroup.WithContext(ctx)
	g.Go(func() error { return ts.sweep(gctx) })
	g.Go(func() error { return ts.commits(gctx) })
	if err := g.Wait(); ctx.Err() == nil {
		return fmt.Errorf("run lease engine in term %d: %w", t.Epoch, err)
	}
	return nil
}

// Take accepts a heartbeat on the leader. It calls answer once that is safe, now or
// later. On other peers the answer is NOT_LEADER.
func (e *Engine) Take(rn *internalv1.Renewal, answer func(*internalv1.RenewalAnswer)) {
	ts := e.current.Load()
	if ts == nil {
		answer(notLeader())
		return
	}
	ts.take(rn, answer)
}

func notLeader() *internalv1.RenewalAnswer {
	return &internalv1.RenewalAnswer{Outcome: internalv1.RenewalAnswer_NOT_LEADER}
}
