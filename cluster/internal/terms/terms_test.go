package terms

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/raft"

	"github.com/holdfast-metal/holdfast/cluster/internal/wait"
	"github.com/holdfast-metal/holdfast/cluster/leader"
	"github.com/holdfast-metal/holdfast/cluster/outcome"
	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// lab is the peer p1 of three, with the Raft and the other peers that a test sets.
type lab struct {
	*Terms
	ctx    context.Context // of the bubble
	notify chan bool

	mu       sync.Mutex
	state    raft.RaftState
	term     uint64
	rivals   map[string]uint64 // peers that do not confirm the leader's term, and theirs
	events   []string
	elected  int
	transfer error
}

type future struct{ err error }

func (f future) Error() error { return f.err }

func (l *lab) State() raft.RaftState {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.state
}

func (l *lab) CurrentTerm() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.term
}

func (l *lab) Barrier(time.Duration) raft.Future {
	l.note("barrier")
	return future{}
}

func (l *lab) LeadershipTransferToServer(id raft.ServerID, _ raft.ServerAddress) raft.Future {
	l.note("hand over to " + string(id))
	return future{l.transfer}
}

func (l *lab) note(event string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.events = append(l.events, event)
}

// took returns the events since the last call.
func (l *lab) took() []string {
	synctest.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.events
	l.events = nil
	return e
}

// set changes Raft's state, and notifies the peer.
func (l *lab) set(s raft.RaftState, term uint64) {
	l.mu.Lock()
	was := l.state
	l.state, l.term = s, term
	l.mu.Unlock()
	if was != s {
		l.notify <- s == raft.Leader
	}
	synctest.Wait()
}

func (l *lab) commitAll(_ context.Context, cmds ...*internalv1.Command) ([]fsm.Result, error) {
	for _, c := range cmds {
		l.note("commit " + string(c.ProtoReflect().WhichOneof(c.ProtoReflect().Descriptor().Oneofs().ByName("op")).Name()))
	}
	return []fsm.Result{{Index: 40}, {Index: 40}}[:len(cmds)], nil
}

// confirm answers for another peer after 10 ms.
func (l *lab) confirm(ctx context.Context, id string, _ uint64) error {
	if !wait.Sleep(ctx, 10*time.Millisecond) {
		return ctx.Err()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.rivals[id] > 0 {
		return errors.New("another term")
	}
	return nil
}

// task records the terms in which it works.
type task struct {
	l    *lab
	term chan leader.Term
	fail chan error
}

func (k *task) Run(ctx context.Context, t leader.Term) error {
	k.l.note("task begins")
	defer k.l.note("task ends")
	k.term <- t
	select {
	case <-ctx.Done():
		return nil
	case err := <-k.fail:
		return err
	}
}

// run calls do with a peer that follows, in a cluster that is new if clusterID is empty.
func run(t *testing.T, clusterID string, do func(l *lab, k *task)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		l := &lab{ctx: t.Context(), notify: make(chan bool, 8), state: raft.Follower, term: 2, rivals: map[string]uint64{}}
		life, end := context.WithCancel(t.Context())
		l.Terms = New(life, Config{
			Self: "p1", Notify: l.notify, Changed: wait.NewSignal(), StandDownTimeout: StandDownTimeout,
			Peers: Peers{
				StandDown: func(_ context.Context, id string, _ uint64) error {
					l.note("stand down " + id)
					return nil
				},
				Confirm:   l.confirm,
				LastIndex: func(_ context.Context, id string) (uint64, error) { return uint64(len(id)), nil },
			},
			Servers: func() []raft.Server { return []raft.Server{{ID: "p1"}, {ID: "p22"}} },
			Voters:  func() ([]string, bool) { return []string{"p22", "p3"}, true },
			Leader: func() (string, bool, bool) {
				leads := l.State() == raft.Leader
				return "p1", leads, leads
			},
			CallElection: func(time.Duration) bool {
				l.mu.Lock()
				defer l.mu.Unlock()
				l.elected++
				return true
			},
			CommitAll: l.commitAll,
			ClusterID: func() string { return clusterID },
			Genesis: func() []*internalv1.Command {
				return []*internalv1.Command{{Op: &internalv1.Command_InitCluster{InitCluster: &internalv1.InitCluster{}}}}
			},
			Scale:  func(d time.Duration) time.Duration { return d },
			Logger: slog.New(slog.DiscardHandler),
		}, l)
		k := &task{l: l, term: make(chan leader.Term, 8), fail: make(chan error)}
		done := make(chan struct{})
		go func() {
			defer close(done)
			l.Lead(life, []leader.Task{k})
		}()
		do(l, k)
		end()
		<-done
	})
}

// An elected peer commits the first command of its term before it is ready, makes others stand down
// before its tasks begin, and ends the tasks with the leadership.
func TestElection(t *testing.T) {
	for _, tt := range []struct {
		name, cluster string
		want          []string
	}{
		{"of an old cluster", "c", []string{"barrier", "commit leader_established", "stand down p22", "task begins"}},
		{"of a new cluster", "", []string{"barrier", "commit leader_established", "commit init_cluster", "stand down p22",
			"task begins"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			run(t, tt.cluster, func(l *lab, k *task) {
				if err := l.NotReady(); !errors.Is(err, outcome.ErrNotLeader) {
					t.Errorf("before the election: got %v, want %v", err, outcome.ErrNotLeader)
				}
				l.set(raft.Leader, 3)
				if diff := cmp.Diff(tt.want, l.took()); diff != "" {
					t.Errorf("election (-want +got):\n%s", diff)
				}
				if got, ok := l.Current(); !ok || got != (Leadership{Term: 3, Floor: 40}) {
					t.Errorf("got leadership %v (%t), want that of term 3 from index 40", got, ok)
				}
				if got := (<-k.term).Epoch; got != 3 {
					t.Errorf("got epoch %d in the task, want 3", got)
				}
				l.set(raft.Follower, 4)
				if diff := cmp.Diff([]string{"task ends"}, l.took()); diff != "" {
					t.Errorf("loss of the leadership (-want +got):\n%s", diff)
				}
				if got, ok := l.Current(); ok {
					t.Errorf("got leadership %v after its loss", got)
				}
			})
		})
	}
}

// A task may have an effect only if a majority confirms its term.
func TestConfirmation(t *testing.T) {
	run(t, "c", func(l *lab, k *task) {
		l.set(raft.Leader, 3)
		term := <-k.term
		began := time.Now()
		if err := term.Confirm(l.ctx); err != nil || time.Since(began) != 10*time.Millisecond {
			t.Errorf("with all peers: got %v after %v, want a confirmation after 10ms", err, time.Since(began))
		}
		l.mu.Lock()
		l.rivals["p22"] = 4
		l.mu.Unlock()
		if err := term.Confirm(l.ctx); err != nil {
			t.Errorf("with one peer in another term: got %v, want the confirmation of the other one", err)
		}
		l.mu.Lock()
		l.rivals["p3"] = 4
		l.mu.Unlock()
		began = time.Now()
		if err := term.Confirm(l.ctx); !errors.Is(err, context.DeadlineExceeded) ||
			time.Since(began) != taskConfirmTimeout {
			t.Errorf("with a majority in another term: got %v after %v, want a timeout", err, time.Since(began))
		}
		pending := make(chan error, 1)
		go func() { pending <- term.Confirm(l.ctx) }()
		synctest.Wait()
		l.set(raft.Follower, 4)
		if err := <-pending; !errors.Is(err, outcome.ErrNotLeader) {
			t.Errorf("a pending confirmation after the loss: got %v, want %v", err, outcome.ErrNotLeader)
		}
		if err := term.Confirm(l.ctx); !errors.Is(err, outcome.ErrNotLeader) {
			t.Errorf("after the loss: got %v, want %v", err, outcome.ErrNotLeader)
		}
	})
}

// A failed task ends the term: the leadership goes to another peer, or this one stands again.
func TestFailedTask(t *testing.T) {
	run(t, "c", func(l *lab, k *task) {
		l.transfer = errors.New("it does not answer")
		l.set(raft.Leader, 3)
		<-k.term
		l.took()
		k.fail <- errors.New("broken")
		if diff := cmp.Diff([]string{"task ends", "hand over to p22"}, l.took()); diff != "" {
			t.Errorf("failed task (-want +got):\n%s", diff)
		}
		time.Sleep(firstPause) // sleep: in a synctest bubble
		synctest.Wait()
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.elected != 1 {
			t.Errorf("got %d elections to begin another term, want 1", l.elected)
		}
	})
}

// A new leader on another peer ends the tasks here, although this one has not noticed.
func TestEndBefore(t *testing.T) {
	run(t, "c", func(l *lab, k *task) {
		l.set(raft.Leader, 3)
		<-k.term
		l.took()
		if err := l.EndBefore(l.ctx, 3); err != nil || len(l.took()) > 0 || !l.leads() {
			t.Errorf("for its own term: got %v, want nothing to end", err)
		}
		if err := l.EndBefore(l.ctx, 4); err != nil || l.leads() {
			t.Errorf("for the next term: got %v, and ready: %t", err, l.leads())
		}
		if diff := cmp.Diff([]string{"task ends"}, l.took()); diff != "" {
			t.Errorf("for the next term (-want +got):\n%s", diff)
		}
	})
}

func (l *lab) leads() bool {
	_, ok := l.Current()
	return ok
}

// Work for which the tasks are paused runs alone, and they begin again in the same term.
func TestPause(t *testing.T) {
	run(t, "c", func(l *lab, k *task) {
		if err := l.Pause(l.ctx, nil); !errors.Is(err, outcome.ErrNotLeader) {
			t.Errorf("on a follower: got %v, want %v", err, outcome.ErrNotLeader)
		}
		l.set(raft.Leader, 3)
		<-k.term
		l.took()
		err := l.Pause(l.ctx, func(context.Context) error {
			l.note("alone")
			return nil
		})
		want := []string{"task ends", "alone", "barrier", "commit leader_established", "stand down p22", "task begins"}
		if diff := cmp.Diff(want, l.took()); diff != "" || err != nil {
			t.Errorf("got %v, events (-want +got):\n%s", err, diff)
		}
	})
}
