package lease_test

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-metal/holdfast/executor/lease"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// waits sends a heartbeat of each machine, one after each gap, and returns the longest time until
// an answer and the number of answers.
func (l *lab) waits(t *testing.T, machines int, gap time.Duration) (longest time.Duration, answers int) {
	t.Helper()
	var mu sync.Mutex
	for i := range machines {
		sent := time.Now()
		l.engine.Load().Take(&internalv1.Renewal{Lease: &internalv1.LeaseRef{Kind: machine, Id: fmt.Sprintf("m-%d", i)}},
			func(a *internalv1.RenewalAnswer) {
				mu.Lock()
				defer mu.Unlock()
				if a.GetOutcome() != renewed {
					t.Errorf("heartbeat of m-%d: got %v, want RENEWED", i, a.GetOutcome())
				}
				if off := a.GetAt().AsTime().Sub(sent.Add(-hostAhead)); off < 0 || off > time.Minute {
					t.Errorf("heartbeat of m-%d: got a time %v after the cluster's", i, off)
				}
				longest, answers = max(longest, time.Since(sent)), answers+1
			})
		pass(gap)
	}
	pass(2 * time.Second)
	mu.Lock()
	defer mu.Unlock()
	return longest, answers
}

func (l *lab) entries() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.index
}

// TestFirstHeartbeats checks that heartbeats after a registration wait for their commit only,
// while later ones share entries that are spaced.
func TestFirstHeartbeats(t *testing.T) {
	const (
		machines = 2000
		gap      = time.Millisecond // between two heartbeats
		commit   = 20 * time.Millisecond
	)
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, 1)
		l.lead(0)
		for i := range machines {
			l.register(fmt.Sprintf("m-%d", i))
		}
		before := l.entries()
		longest, answers := l.waits(t, machines, gap)
		if want := 2*commit + gap; answers != machines || longest > want {
			t.Errorf("first heartbeats: got %d answers, the last after %v, want %d, at most %v", answers, longest, machines,
				want)
		}
		if got := l.entries() - before; got > machines/2 {
			t.Errorf("first heartbeats: got %d entries, want at most %d: those of one commit share one", got, machines/2)
		}
		pass(40 * time.Second) // the committed heartbeats are too old to answer from memory
		before = l.entries()
		spacing := lease.GapFor(machines)
		longest, answers = l.waits(t, machines, gap)
		if want := spacing + 2*commit; answers != machines || longest > want {
			t.Errorf("later heartbeats: got %d answers, the last after %v, want %d, at most %v", answers, longest, machines,
				want)
		}
		if got, want := l.entries()-before, uint64(machines*gap/spacing)+3; got > want { // one is of the clock
			t.Errorf("later heartbeats: got %d entries, want at most %d", got, want)
		}
		l.depose()
	})
}

// TestHeartbeatsAfterLeaderChange checks that a new leader answers from memory if the lease's owner
// is ready, but only after its first commit: it may have paused before its engine started, and
// another peer may lead.
func TestHeartbeatsAfterLeaderChange(t *testing.T) {
	for _, replaced := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			l := newLab(t, 1)
			l.lead(0)
			for _, id := range []string{"m-1", "m-2"} {
				l.register(id)
				if got, err := l.renew(machine, id); err != nil || got != renewed {
					t.Fatalf("first heartbeat of %s: got %v, %v", id, got, err)
				}
			}
			l.lead(0)
			synctest.Wait()
			if replaced {
				l.mu.Lock()
				*l.cut = true
				l.mu.Unlock()
			}
			renew := func(id string) (internalv1.RenewalAnswer_Outcome, bool) {
				answer := make(chan internalv1.RenewalAnswer_Outcome, 1)
				l.engine.Load().Take(&internalv1.Renewal{Lease: &internalv1.LeaseRef{Kind: machine, Id: id}},
					func(a *internalv1.RenewalAnswer) { answer <- a.GetOutcome() })
				select {
				case got := <-answer:
					return got, true
				default:
					return <-answer, false
				}
			}
			want := renewed
			if replaced {
				want = internalv1.RenewalAnswer_NOT_LEADER
			}
			if got, memory := renew("m-1"); got != want || memory {
				t.Errorf("first heartbeat of the term (replaced: %v): got %v, from memory %v, want %v, false", replaced, got,
					memory, want)
			}
			if got, memory := renew("m-2"); got != want || memory == replaced {
				t.Errorf("next heartbeat (replaced: %v): got %v, from memory %v", replaced, got, memory)
			}
			l.depose()
		})
	}
}
