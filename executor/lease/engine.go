package lease

import (
	"context"
	"fmt"
	"iter"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/holdfast-metal/holdfast/cluster"
	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// Config tunes an Engine. The zero value is the default everywhere.
type Config struct {
	Sweep      time.Duration         // between two looks at the deadlines. Default 250 ms
	ClockEvery time.Duration         // the lease clock on record is at most so old while there are leases. Default 2 s
	Logger     *slog.Logger          // default: none
	Registerer prometheus.Registerer // default: none
}

// Proposer commits commands (cluster.Node).
type Proposer interface {
	Apply(ctx context.Context, cmd *internalv1.Command) (fsm.Result, error)
}

// State is the leader's own FSM.
type State interface {
	View() *fsm.View
}

// records is what the engine reads of the state (*fsm.View).
type records interface {
	LeaseClock() int64
	Lease(kind internalv1.LeaseRef_Kind, id string) (*internalv1.Lease, bool)
	Leases() iter.Seq[*internalv1.Lease]
	LeasesChangedSince(revision uint64) iter.Seq[*internalv1.Lease]
}

// Engine is the leader task that keeps the leases.
type Engine struct {
	cfg      Config
	proposer Proposer
	state    State
	current  atomic.Pointer[reign]
	metrics  *metrics
}

// NewEngine returns an Engine; Run it in each term.
func NewEngine(cfg Config, p Proposer, s State) *Engine {
	if cfg.Sweep == 0 {
		cfg.Sweep = 250 * time.Millisecond
	}
	if cfg.ClockEvery == 0 {
		cfg.ClockEvery = 2 * time.Second
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	e := &Engine{cfg: cfg, proposer: p, state: s}
	e.metrics = newMetrics(cfg.Registerer, e)
	return e
}

// Run keeps the leases until the term ends. It implements cluster.LeaderTask.
func (e *Engine) Run(ctx context.Context, t cluster.Term) error {
	r := newReign(e, t)
	e.current.Store(r)
	defer func() {
		e.current.CompareAndSwap(r, nil)
		r.end()
	}()
	e.cfg.Logger.Info("keeping leases", "term", t.Epoch, "leases", r.live(), "clock", r.began)
	g, gctx := errgroup.WithContext(ctx)
	g.Go(func() error { return r.sweep(gctx) })
	g.Go(func() error { return r.commits(gctx) })
	if err := g.Wait(); ctx.Err() == nil {
		return fmt.Errorf("keep leases in term %d: %w", t.Epoch, err)
	}
	return nil
}

// Take takes a heartbeat on the leader and answers it once it is safe, now or later. Elsewhere the
// answer is NOT_LEADER.
func (e *Engine) Take(rn *internalv1.Renewal, answer func(*internalv1.RenewalAnswer)) {
	r := e.current.Load()
	if r == nil {
		answer(notLeader())
		return
	}
	r.take(rn, answer)
}

func notLeader() *internalv1.RenewalAnswer {
	return &internalv1.RenewalAnswer{Outcome: internalv1.RenewalAnswer_NOT_LEADER}
}
