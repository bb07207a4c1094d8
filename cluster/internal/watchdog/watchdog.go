// Package watchdog notices when this peer leads but cannot commit, and when an entry is slow to
// apply. It must not know what is committed.
package watchdog

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/holdfast-metal/holdfast/cluster/internal/raftfsm"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// ErrStalled is returned by Run if this peer leads but cannot commit, for example because its disk
// hangs.
var ErrStalled = errors.New("the leader cannot commit")

// Config holds what the watchdog depends on.
type Config struct {
	DataDir string
	// NoOpInterval is how long a leader may be idle before it commits a command that changes
	// nothing, and StallTimeout how long it may commit nothing.
	NoOpInterval, StallTimeout time.Duration

	CommitIndex func() uint64
	Leads       func() bool // ready or not
	Ready       func() bool
	// Note is called often, to remember the index of the state.
	Note   func()
	Commit func(ctx context.Context, cmd *internalv1.Command) error
	Logger *slog.Logger
}

// FSM reports the entry that is being applied.
type FSM interface {
	Applying() *raftfsm.Applying
	Busy(d time.Duration) bool
}

// Watchdog watches the commits of a leader.
type Watchdog struct {
	cfg Config
	fsm FSM
}

// New returns a watchdog.
func New(cfg Config, f FSM) *Watchdog { return &Watchdog{cfg: cfg, fsm: f} }

// slowApply is the time from which an entry that is being applied is logged as slow.
const slowApply = time.Second

// Run commits a no-op when the leader is idle. It stops the peer if nothing is committed for
// StallTimeout. A slow Apply does not count: entries are committed meanwhile, and the next leader
// would meet the same entry. It counts ticks instead of reading the clock, because a process that
// was paused has not stalled.
func (w *Watchdog) Run(ctx context.Context) error {
	every := min(w.cfg.NoOpInterval, w.cfg.StallTimeout) / 5
	tick := time.NewTicker(every)
	defer tick.Stop()
	var (
		st      stall
		slow    uint64 // index of the entry that was logged as slow
		pending = make(chan struct{}, 1)
	)
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
		w.cfg.Note()
		slow = w.noteSlow(slow)
		st.tick(every, w.cfg.CommitIndex(), w.cfg.Leads(), w.fsm.Busy(every))
		if st.idle >= w.cfg.StallTimeout {
			return fmt.Errorf("%w: nothing committed for %v as the leader: check the disk under %s",
				ErrStalled, st.idle, w.cfg.DataDir)
		}
		if w.cfg.Ready() && st.idle >= w.cfg.NoOpInterval {
			w.noOp(ctx, pending)
		}
	}
}

// stall measures how long a leader has committed nothing.
type stall struct {
	committed uint64        // the commit index at the last tick
	idle      time.Duration // time as leader since it moved
}

// tick adds the time of a tick. While an entry is being applied, Raft's queue may be full, so that
// a healthy disk commits nothing.
func (s *stall) tick(every time.Duration, committed uint64, leads, applying bool) {
	if committed != s.committed || !leads || applying {
		s.committed, s.idle = committed, 0
		return
	}
	s.idle += every
}

// noteSlow logs an entry that has been applied for long, unless it is the one that was logged last.
// It returns the index of the entry that was logged last.
func (w *Watchdog) noteSlow(last uint64) uint64 {
	a := w.fsm.Applying()
	if a == nil || a.Index == last || time.Since(a.Began) < slowApply {
		return last
	}
	w.cfg.Logger.Warn("applying an entry is slow", "index", a.Index, "commands", a.Kinds(), "bytes", a.Bytes(),
		"for", time.Since(a.Began).Round(time.Millisecond))
	return a.Index
}

// noOp proposes a command that changes nothing, unless one is pending.
func (w *Watchdog) noOp(ctx context.Context, pending chan struct{}) {
	select {
	case pending <- struct{}{}:
	default:
		return
	}
	go func() { // ends with the commit, or with ctx
		defer func() { <-pending }()
		err := w.cfg.Commit(ctx, &internalv1.Command{
			Op: &internalv1.Command_NoOp{NoOp: &internalv1.NoOp{}},
		})
		if err != nil && ctx.Err() == nil {
			w.cfg.Logger.Debug("no-op of the watchdog not committed", "error", err)
		}
	}()
}
