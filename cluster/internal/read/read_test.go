package read

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-metal/holdfast/cluster/call"
	"github.com/holdfast-metal/holdfast/cluster/internal/terms"
	"github.com/holdfast-metal/holdfast/cluster/internal/wait"
	"github.com/holdfast-metal/holdfast/cluster/outcome"
)

// lab is the peer p1, with the leadership and the state that a test sets.
type lab struct {
	*Reader
	ctx     context.Context // of the bubble
	changed *wait.Signal
	ended   chan struct{}
	commit  atomic.Uint64
	applied atomic.Uint64
	asked   atomic.Int32

	mu      sync.Mutex
	leader  string
	ready   bool
	refuses error // what a confirmation of the term returns
}

// lead makes a peer the leader; ready is that of this one.
func (l *lab) lead(id string, ready bool) {
	l.mu.Lock()
	l.leader, l.ready = id, ready
	l.mu.Unlock()
	l.changed.Fire()
}

func (l *lab) refuse(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.refuses = err
}

func (l *lab) Leader() (string, bool, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.leader, l.leader == "p1", l.leader != ""
}

func (l *lab) Current() (terms.Leadership, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return terms.Leadership{Term: 3, Floor: 40}, l.leader == "p1" && l.ready
}

func (l *lab) NotReady() error {
	if _, ok := l.Current(); ok {
		return nil
	}
	return outcome.ErrNotLeader
}

func (l *lab) Confirm(context.Context, uint64, string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.refuses
}

func (l *lab) Applied() uint64 { return l.applied.Load() }

func (l *lab) WaitApplied(ctx context.Context, index uint64) error {
	for l.applied.Load() < index {
		if !wait.Sleep(ctx, time.Millisecond) {
			return ctx.Err()
		}
	}
	return nil
}

func bubble(t *testing.T, do func(t *testing.T, l *lab)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		l := &lab{ctx: t.Context(), changed: wait.NewSignal(), ended: make(chan struct{})}
		l.commit.Store(50)
		l.applied.Store(50)
		l.Reader = New(t.Context(), Config{
			Self: "p1", Leader: l.Leader, Changed: l.changed, Ended: l.ended,
			Leads:    func() bool { id, _, _ := l.Leader(); return id == "p1" },
			Stopped:  func() bool { return false },
			Why:      func(id string) string { return "leader " + id + " is unreachable" },
			Stopping: func() error { return outcome.ErrStopping },
			Ask: func(_ context.Context, id string) (uint64, error) {
				if l.asked.Add(1) == 1 {
					return 0, errors.New(id + " has just lost the leadership")
				}
				return 60, nil
			},
			CommitIndex: l.commit.Load,
		}, l, l)
		do(t, l)
	})
}

// A leader may answer a read only if a majority confirms its term after the read began, and never
// from a state before the first command of its term.
func TestConfirmed(t *testing.T) {
	bubble(t, func(t *testing.T, l *lab) {
		if _, err := l.Confirmed(l.ctx, ""); !errors.Is(err, outcome.ErrNotLeader) {
			t.Errorf("on a follower: got %v, want %v", err, outcome.ErrNotLeader)
		}
		l.lead("p1", true)
		for commit, want := range map[uint64]uint64{50: 50, 30: 40} {
			l.commit.Store(commit)
			if got, err := l.Confirmed(l.ctx, ""); got != want || err != nil {
				t.Errorf("committed %d: got index %d (%v), want %d", commit, got, err, want)
			}
		}
		rejected := errors.New("peer p2 has term 4")
		l.refuse(rejected)
		if _, err := l.Confirmed(l.ctx, ""); !errors.Is(err, rejected) {
			t.Errorf("with a rejected confirmation: got %v, want %v", err, rejected)
		}
	})
}

// A read whose confirmation is rejected is repeated: here until the next leader answers, or until
// the caller's deadline. It then states that nothing has changed.
func TestRejectedConfirmation(t *testing.T) {
	bubble(t, func(t *testing.T, l *lab) {
		l.lead("p1", true)
		l.refuse(errors.New("peer p2 has term 4"))
		go func() {
			time.Sleep(time.Second) // sleep: in a synctest bubble
			l.lead("p2", false)
		}()
		began := time.Now()
		got, err := l.Index(l.ctx)
		if err != nil || got != 60 || l.asked.Load() != 2 {
			t.Errorf("got index %d (%v) after %d requests to the next leader, want 60 after 2", got, err, l.asked.Load())
		}
		if took := time.Since(began); took < time.Second || took > time.Second+2*maxPause {
			t.Errorf("got the index after %v, want it right after the election", took)
		}

		l.lead("p1", true)
		ctx, cancel := context.WithTimeout(l.ctx, time.Second)
		defer cancel()
		_, err = l.Index(ctx)
		var o *outcome.Error
		if !errors.As(err, &o) || o.Outcome != outcome.NotApplied || !strings.Contains(err.Error(), "has term 4") {
			t.Errorf("without another leader: got %v, want that nothing is applied, and why", err)
		}
	})
}

// A call waits for a leader for a limited time, and learns why there is none.
func TestServer(t *testing.T) {
	bubble(t, func(t *testing.T, l *lab) {
		began := time.Now()
		_, err := l.Server(l.ctx, time.Now().Add(HoldTimeout), false)
		if !errors.Is(err, outcome.ErrNoLeader) || !errors.Is(err, ErrNoMoreTime) || time.Since(began) != HoldTimeout {
			t.Errorf("without a leader: got %v after %v, want no leader after %v", err, time.Since(began), HoldTimeout)
		}
		go func() {
			time.Sleep(time.Second) // sleep: in a synctest bubble
			l.lead("p2", false)
		}()
		if id, err := l.Server(l.ctx, time.Now().Add(HoldTimeout), false); id != "p2" || err != nil {
			t.Errorf("with a leader after a second: got %q (%v), want p2", id, err)
		}
		if _, err := l.Server(l.ctx, time.Now().Add(HoldTimeout), true); !errors.Is(err, outcome.ErrNotLeader) {
			t.Errorf("a forwarded call at another peer than the leader: got %v, want %v", err, outcome.ErrNotLeader)
		}
		close(l.ended)
		l.lead("", false)
		if _, err := l.Server(l.ctx, time.Now().Add(HoldTimeout), false); !errors.Is(err, outcome.ErrStopping) {
			t.Errorf("at a peer that stops: got %v, want %v", err, outcome.ErrStopping)
		}
	})
}

// A call to a leader ends soon after another one is known: a host that vanished closes nothing.
func TestWhileLeads(t *testing.T) {
	bubble(t, func(t *testing.T, l *lab) {
		l.lead("p2", false)
		ctx, stop := l.WhileLeads(l.ctx, "p2")
		defer stop()
		l.lead("", false)
		time.Sleep(time.Minute) // sleep: in a synctest bubble
		if ctx.Err() != nil {
			t.Error("without another leader: got the end of the call")
		}
		began := time.Now()
		l.lead("p3", false)
		<-ctx.Done()
		if got := context.Cause(ctx); !errors.Is(got, errReplaced) || time.Since(began) != leaderGrace {
			t.Errorf("with another leader: got %v after %v, want %v after %v", got, time.Since(began), errReplaced, leaderGrace)
		}
	})
}

// The local state must fit the consistency of a read.
func TestPrepare(t *testing.T) {
	bubble(t, func(t *testing.T, l *lab) {
		stale := call.WithConsistency(l.ctx, call.Consistency{Stale: true})
		if err := l.Prepare(stale); err != nil {
			t.Errorf("stale read without a leader: got %v", err)
		}
		l.lead("p1", true)
		go func() {
			time.Sleep(time.Second) // sleep: in a synctest bubble
			l.applied.Store(70)
		}()
		began := time.Now()
		err := l.Prepare(call.WithConsistency(l.ctx, call.Consistency{MinIndex: 70}))
		if err != nil || time.Since(began).Truncate(time.Second) != time.Second {
			t.Errorf("read at index 70: got %v after %v, want nil after a second", err, time.Since(began))
		}
		err = l.Prepare(call.WithConsistency(l.ctx, call.Consistency{MinIndex: 99}))
		var o *outcome.Error
		if !errors.As(err, &o) || o.Outcome != outcome.NotApplied ||
			time.Since(began).Truncate(time.Second) != time.Second+minIndexTimeout {
			t.Errorf("read at index 99: got %v after %v, want that nothing is applied after %v", err, time.Since(began),
				minIndexTimeout)
		}
	})
}
