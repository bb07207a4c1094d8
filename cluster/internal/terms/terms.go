// Package terms owns the leaderships of this peer: it begins a term, runs its tasks and ends them,
// confirms that a term is current, and hands the leadership over. It must not know what the tasks
// do, nor how other peers are reached.
package terms

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"
	"golang.org/x/sync/errgroup"

	"github.com/holdfast-metal/holdfast/cluster/internal/propose"
	"github.com/holdfast-metal/holdfast/cluster/internal/readindex"
	"github.com/holdfast-metal/holdfast/cluster/internal/wait"
	"github.com/holdfast-metal/holdfast/cluster/leader"
	"github.com/holdfast-metal/holdfast/cluster/outcome"
	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// StandDownTimeout bounds how long a new leader waits for old tasks on other peers to end. A peer
// that cannot be reached cannot confirm its term either, so its tasks have no effect.
const StandDownTimeout = 500 * time.Millisecond

// Raft is what a leadership needs of Raft.
type Raft interface {
	State() raft.RaftState
	CurrentTerm() uint64
	Barrier(timeout time.Duration) raft.Future
	LeadershipTransferToServer(id raft.ServerID, addr raft.ServerAddress) raft.Future
}

// Peers has the requests to other peers. Each returns an error if the peer does not answer.
type Peers struct {
	// StandDown makes a peer end the leader tasks of terms before one.
	StandDown func(ctx context.Context, id string, term uint64) error
	// Confirm returns nil if a peer confirms that it has a term.
	Confirm func(ctx context.Context, id string, term uint64) error
	// LastIndex returns the index of a peer's last entry.
	LastIndex func(ctx context.Context, id string) (uint64, error)
}

// Config holds what a peer's leaderships depend on.
type Config struct {
	Self  string
	Peers Peers
	// Notify receives true when this peer gains the leadership, and false when it loses it.
	Notify <-chan bool
	// Servers returns Raft's configuration, and Voters its other voters and whether this peer is
	// one.
	Servers func() []raft.Server
	Voters  func() (others []string, self bool)
	// Leader returns the leader that this peer knows, and whether it is this peer.
	Leader func() (id string, self, ok bool)
	// CallElection makes this peer stand for election, and reports whether Raft accepted that.
	CallElection func(timeout time.Duration) bool
	// CommitAll commits commands of the leader as one entry.
	CommitAll func(ctx context.Context, cmds ...*internalv1.Command) ([]fsm.Result, error)
	// ClusterID returns the id of the cluster in the state. If it is empty, the first leader
	// commits the commands that Genesis returns.
	ClusterID func() string
	Genesis   func() []*internalv1.Command
	// Changed fires when the leader or its readiness changes.
	Changed *wait.Signal
	// StandDownTimeout is usually that of this package.
	StandDownTimeout time.Duration
	// Scale returns a duration times the multiplier of Raft's timeouts.
	Scale  func(time.Duration) time.Duration
	Logger *slog.Logger
}

// Terms are the leaderships of this peer.
type Terms struct {
	cfg  Config
	raft Raft
	life context.Context // the peer's

	leadership    atomic.Pointer[Leadership]
	session       atomic.Pointer[session] // the running one; nil if there is none
	confirmer     *readindex.Confirmer
	pauseRequests chan *pauseRequest // requests for Lead to pause the tasks
	handingOver   atomic.Bool        // a transfer is running
}

// Leadership is a term that is ready: this peer has applied the term's first command.
type Leadership struct {
	Term  uint64
	Floor uint64 // the index of its first command
}

// New returns the leaderships of a peer that lives until ctx ends.
func New(life context.Context, cfg Config, r Raft) *Terms {
	return &Terms{cfg: cfg, raft: r, life: life, pauseRequests: make(chan *pauseRequest),
		confirmer: readindex.NewConfirmer(life, cfg.Voters, cfg.Peers.Confirm)}
}

// HandingOver reports whether a transfer of the leadership is running. Entries that are sent again
// would block it.
func (t *Terms) HandingOver() bool { return t.handingOver.Load() }

// refusal returns the error of a call that has changed nothing.
func (t *Terms) refusal(err error) error {
	id, _, _ := t.cfg.Leader()
	return outcome.Refusal(id, err)
}

// Current returns the leadership if this peer leads and is ready.
func (t *Terms) Current() (Leadership, bool) {
	r := t.leadership.Load()
	if r == nil || !t.LeadsIn(r.Term) {
		return Leadership{}, false
	}
	return *r, true
}

// LeadsIn reports whether this peer still leads in a term that it has led. No peer leads
// twice in one term.
func (t *Terms) LeadsIn(term uint64) bool {
	return t.raft.State() == raft.Leader && t.raft.CurrentTerm() == term
}

// leading returns the term in which this peer leads.
func (t *Terms) leading() (uint64, bool) {
	term := t.raft.CurrentTerm() // read before and after, because it may lose and stand in another term in between
	return term, t.raft.State() == raft.Leader && t.raft.CurrentTerm() == term
}

// NotReady returns the reason why this peer cannot accept commands, or nil if it can.
func (t *Terms) NotReady() error {
	if _, ok := t.Current(); ok {
		return nil
	}
	if t.raft.State() == raft.Leader {
		return fmt.Errorf("%w yet: it is taking over", outcome.ErrNotLeader)
	}
	return outcome.ErrNotLeader
}

// runTerm does the work of one term.
func (t *Terms) runTerm(ctx context.Context, term uint64, tasks []leader.Task) error {
	start := time.Now()
	floor, err := t.establish(ctx, term)
	if err != nil {
		return fmt.Errorf("establish term %d: %w", term, err)
	}
	t.leadership.Store(&Leadership{Term: term, Floor: floor})
	t.cfg.Changed.Fire()
	t.cfg.Logger.Info("leading", "term", term, "index", floor, "took", time.Since(start))

	// Tasks of an old leader that has not noticed yet must end before ours begin.
	t.standDownOthers(ctx, term)
	if err := ctx.Err(); err != nil {
		return err // it has not waited for them, so that no task of this term may begin
	}
	now := leader.NewTerm(term, func(ctx context.Context) error {
		// A task that ignores its context must not hold up the next leader.
		ctx, cancel := context.WithTimeout(ctx, taskConfirmTimeout)
		defer cancel()
		return t.Confirm(ctx, term, "")
	})
	g, gctx := errgroup.WithContext(ctx)
	for _, task := range tasks {
		g.Go(func() error { return task.Run(gctx, now) })
	}
	err = g.Wait()
	if err == nil {
		<-ctx.Done()
	}
	return err
}

// establish brings a new leader's state up to date and commits its first command. In a new
// cluster that entry also holds the genesis, the founders and the cluster id, all or none.
// It returns the index of the entry.
func (t *Terms) establish(ctx context.Context, term uint64) (uint64, error) {
	if err := wait.For(ctx, t.raft.Barrier(propose.EnqueueTimeout)); err != nil {
		return 0, fmt.Errorf("wait for earlier commands: %w", err)
	}
	cmds := []*internalv1.Command{{
		Op: &internalv1.Command_LeaderEstablished{
			LeaderEstablished: &internalv1.LeaderEstablished{PeerId: t.cfg.Self, Term: term},
		},
	}}
	newCluster := t.cfg.ClusterID() == ""
	if newCluster {
		cmds = append(cmds, t.cfg.Genesis()...)
	}
	results, err := t.cfg.CommitAll(ctx, cmds...)
	if err != nil {
		return 0, err
	}
	// failpoint: leader-established
	for i, r := range results {
		switch {
		case r.Err == nil:
		case i == 0:
			return 0, r.Err
		default:
			t.cfg.Logger.Error("genesis command refused", "command", i, "error", r.Err)
		}
	}
	if t.raft.CurrentTerm() != term {
		return 0, fmt.Errorf("%w: term %d has ended", outcome.ErrNotLeader, term)
	}
	if newCluster {
		t.cfg.Logger.Info("cluster created", "cluster", t.cfg.ClusterID())
	}
	return results[0].Index, nil
}

// standDownOthers makes every other peer end the leader tasks of earlier terms. Peers that
// do not answer are skipped.
func (t *Terms) standDownOthers(ctx context.Context, term uint64) {
	ctx, cancel := context.WithTimeout(ctx, t.cfg.StandDownTimeout)
	defer cancel()
	var wg sync.WaitGroup
	for _, s := range t.cfg.Servers() {
		id := string(s.ID)
		if id == t.cfg.Self {
			continue
		}
		wg.Go(func() {
			if err := t.cfg.Peers.StandDown(ctx, id, term); err != nil {
				t.cfg.Logger.Debug("stand-down request failed", "peer", id, "error", err)
			}
		})
	}
	wg.Wait()
}

// StepDown makes this peer refuse everything that only a ready leader may do.
func (t *Terms) StepDown(term uint64) {
	if r := t.leadership.Load(); r != nil && r.Term <= term {
		t.leadership.Store(nil)
	}
	t.confirmer.End(term + 1)
	t.cfg.Changed.Fire()
}

// Confirm returns nil only if a majority confirmed, after the call began, that the term is
// current. ackedBy names a peer that has already reported that since then; it may be empty.
func (t *Terms) Confirm(ctx context.Context, term uint64, ackedBy string) error {
	if r, ok := t.Current(); !ok || r.Term != term {
		return fmt.Errorf("%w in term %d any more", outcome.ErrNotLeader, term)
	}
	if err := t.confirmer.Confirm(ctx, term, ackedBy); err != nil {
		return fmt.Errorf("confirm term %d with a quorum: %w", term, err)
	}
	if r, ok := t.Current(); !ok || r.Term != term {
		return fmt.Errorf("%w in term %d any more", outcome.ErrNotLeader, term)
	}
	return nil
}
