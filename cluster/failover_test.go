package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/holdfast-metal/holdfast/cluster"
	"github.com/holdfast-metal/holdfast/cluster/call"
	"github.com/holdfast-metal/holdfast/cluster/clustertest"
	"github.com/holdfast-metal/holdfast/cluster/leader"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// writer registers machines through a peer until it is stopped, and records which were
// acknowledged.
type writer struct {
	mu    sync.Mutex
	acked []string
	stop  context.CancelFunc
	wg    sync.WaitGroup
}

func startWriter(t *testing.T, peers ...*clustertest.Peer) *writer {
	ctx, cancel := context.WithCancel(t.Context())
	w := &writer{stop: cancel}
	for i, p := range peers {
		w.wg.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				id := fmt.Sprintf("w%d-%d", i, n)
				call, cancel := context.WithTimeout(ctx, 5*time.Second)
				if err := register(call, p, id); err == nil {
					w.mu.Lock()
					w.acked = append(w.acked, id)
					w.mu.Unlock()
				}
				cancel()
			}
		})
	}
	t.Cleanup(func() { cancel(); w.wg.Wait() })
	return w
}

func (w *writer) count() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.acked)
}

// check stops the writer and checks that every peer has all acknowledged machines.
func (w *writer) check(t *testing.T, peers ...*clustertest.Peer) {
	t.Helper()
	w.stop()
	w.wg.Wait()
	for _, p := range peers {
		v, err := p.Node.View(t.Context())
		if err != nil {
			t.Fatalf("view on %s: %v", p.ID, err)
		}
		for _, id := range w.acked {
			if _, ok := v.Machine(id); !ok {
				t.Errorf("view on %s: got no machine %s, which was acknowledged", p.ID, id)
			}
		}
	}
}

func waitCount(t *testing.T, w *writer, n int) {
	t.Helper()
	clustertest.Eventually(t, 20*time.Second, fmt.Sprintf("%d writes", n), func() error {
		if got := w.count(); got < n {
			return fmt.Errorf("%d so far", got)
		}
		return nil
	})
}

func TestNothingAcknowledgedIsLost(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		end  func(*clustertest.Cluster, *clustertest.Peer) error
	}{
		{"killed", func(c *clustertest.Cluster, p *clustertest.Peer) error { c.Kill(p); return nil }},
		{"stopped", (*clustertest.Cluster).Stop},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := clustertest.Start(t, clustertest.Options{OnDisk: true})
			old := c.Leader()
			settled(t, c, 3)
			rest := c.Followers(old)
			w := startWriter(t, rest...)
			waitCount(t, w, 50)
			if err := tc.end(c, old); err != nil {
				t.Fatalf("stop the leader: %v", err)
			}
			at := w.count()
			leader := c.Leader()
			waitCount(t, w, at+50)
			w.check(t, rest...)

			c.Restart(old)
			settled(t, c, 3)
			w.check(t, old)
			if got := c.Leader(); got != leader {
				t.Logf("got leader %s after %s", got.ID, leader.ID)
			}
			for _, p := range c.Peers {
				if got, want := p.FSM.View().Meta().GetClusterId(), leader.FSM.View().Meta().GetClusterId(); got != want {
					t.Errorf("cluster of %s: got %s, want %s", p.ID, got, want)
				}
			}
		})
	}
}

// TestDeathWatchIsFasterThanTimeouts kills the leader while no follower would call an election by
// itself. On a busy machine a follower may try to connect again long after it lost the connection.
func TestDeathWatchIsFasterThanTimeouts(t *testing.T) {
	t.Run("at once", func(t *testing.T) { deathWatch(t, 0) })
	t.Run("late", func(t *testing.T) { deathWatch(t, calmMultiplier*time.Second) })
}

// deathWatch kills a leader. Each follower takes some time to connect again.
func deathWatch(t *testing.T, late time.Duration) {
	t.Helper()
	// With these timeouts no follower calls an election by itself during the test, even on
	// a slow machine.
	const timeout, within = 10 * time.Minute, time.Minute
	var killed atomic.Bool
	c := clustertest.Start(t, clustertest.Options{Configure: func(_ int, c *cluster.Config) {
		c.RaftMultiplier = calmMultiplier
		var delay sync.Once
		c.FailDials(func(string) error {
			if killed.Load() {
				delay.Do(func() { time.Sleep(late) }) // sleep: the peer gets no processor for as long
			}
			return nil
		})
	}})
	old := c.Leader()
	settled(t, c, 3)
	rest := c.Followers(old)
	// The watch begins a moment after the leader is known. A write through a follower waits long
	// enough.
	for _, p := range rest {
		if err := register(t.Context(), p, "before-"+p.ID); err != nil {
			t.Fatalf("write before: %v", err)
		}
	}
	clustertest.Eventually(t, 20*time.Second, "the followers to watch the leader", func() error {
		for _, p := range rest {
			if !p.Node.Watching(old.ID) {
				return fmt.Errorf("%s does not watch it", p.ID)
			}
		}
		return nil
	})
	for _, p := range rest {
		if err := p.Node.SetElectionTimeout(timeout); err != nil {
			t.Fatal(err)
		}
	}
	if got := c.Leader(); got != old {
		t.Fatalf("got leader %s before the kill, want %s", got.ID, old.ID)
	}
	start := time.Now()
	killed.Store(true)
	c.Kill(old)
	clustertest.Eventually(t, within, "a write after the kill", func() error {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		return register(ctx, rest[0], "after") // the first try may have gone to the old leader
	})
	t.Logf("got a write after %v, with timeouts of %v", time.Since(start), timeout)
}

// spell records when leader tasks run.
type spell struct {
	running *atomic.Int32
	max     *atomic.Int32
	terms   chan leader.Term
	linger  time.Duration // after ctx has ended
}

func newSpell(linger time.Duration) spell {
	return spell{running: &atomic.Int32{}, max: &atomic.Int32{}, terms: make(chan leader.Term, 100), linger: linger}
}

func (s spell) Run(ctx context.Context, t leader.Term) error {
	if n := s.running.Add(1); n > s.max.Load() {
		s.max.Store(n)
	}
	defer s.running.Add(-1)
	if err := t.Confirm(ctx); err != nil {
		return err
	}
	s.terms <- t
	<-ctx.Done()
	time.Sleep(s.linger) // sleep: work that takes time to end
	return nil
}

// next blocks until the next leader task runs, and checks that the term of the previous one has
// ended.
func (s spell) next(t *testing.T, last leader.Term) leader.Term {
	t.Helper()
	select {
	case term := <-s.terms:
		if term.Epoch <= last.Epoch {
			t.Errorf("got term %d after term %d", term.Epoch, last.Epoch)
		}
		if err := last.Confirm(t.Context()); err == nil {
			t.Errorf("term %d: still confirmed after the start of term %d", last.Epoch, term.Epoch)
		}
		return term
	case <-time.After(30 * time.Second):
		t.Fatal("wait for a leader task: timed out")
		return last
	}
}

func TestNewLeaderWaitsForOldTasks(t *testing.T) {
	t.Parallel()
	s := newSpell(200 * time.Millisecond)
	c := clustertest.Start(t, clustertest.Options{
		Work: clustertest.Leading(s),
		// A busy machine may need longer than the remaining half second.
		Configure: func(_ int, c *cluster.Config) { c.WaitLongForOldTasks() },
	})
	var last leader.Term
	for range 3 {
		old := c.Leader()
		settled(t, c, 3)
		last = s.next(t, last)
		clustertest.Eventually(t, 30*time.Second, "another leader", func() error {
			if c.Leader() == old {
				c.Followers(old)[0].Node.CallElection() // it may lose if it lacks the last entry
				return errors.New("still the old leader")
			}
			return nil
		})
	}
	s.next(t, last)
	if got := s.max.Load(); got != 1 {
		t.Errorf("leader tasks at a time: got %d, want 1", got)
	}
}

func TestLeaderTasksDoNotOverlap(t *testing.T) {
	t.Parallel()
	s := newSpell(0)
	var handovers atomic.Int32
	c := clustertest.Start(t, clustertest.Options{
		OnDisk: true,
		Work: func(int) cluster.Work {
			return cluster.Work{Tasks: []leader.Task{s}, BeforeHandover: func(context.Context) {
				handovers.Add(1)
				if n := s.running.Load(); n != 0 {
					t.Errorf("leader tasks during the handover: got %d", n)
				}
			}}
		},
		Configure: calm,
	})
	var last leader.Term
	for range 3 {
		leader := c.Leader()
		settled(t, c, 3)
		last = s.next(t, last)
		if err := c.Stop(leader); err != nil {
			t.Fatalf("stop the leader: %v", err)
		}
		c.Leader()
		c.Restart(leader)
	}
	if got := s.max.Load(); got != 1 {
		t.Errorf("leader tasks at a time: got %d, want 1", got)
	}
	if got := handovers.Load(); got != 3 {
		t.Errorf("handovers: got %d, want 3", got)
	}
}

// failing is a leader task that fails on one peer.
type failing struct {
	on   string
	self string
}

func (f failing) Run(ctx context.Context, _ leader.Term) error {
	if f.on == f.self {
		return errors.New("this peer cannot lead")
	}
	<-ctx.Done()
	return nil
}

func TestFailedTaskTransfersLeadership(t *testing.T) {
	t.Parallel()
	c := clustertest.Start(t, clustertest.Options{Work: func(i int) cluster.Work {
		// p1 leads first, because it forms the cluster
		return cluster.Work{Tasks: []leader.Task{failing{on: "p1", self: fmt.Sprintf("p%d", i+1)}}}
	}})
	clustertest.Eventually(t, 20*time.Second, "another peer leads", func() error {
		if l := c.Leader(); l.ID == "p1" {
			return errors.New("p1 leads")
		}
		return nil
	})
	if err := register(t.Context(), c.Peers[0], "m"); err != nil {
		t.Errorf("write: %v", err)
	}
}

func TestNoQuorum(t *testing.T) {
	t.Parallel()
	c := clustertest.Start(t, clustertest.Options{})
	if err := register(t.Context(), c.Peers[0], "m"); err != nil {
		t.Fatalf("write: %v", err)
	}
	settled(t, c, 3)
	for _, p := range c.Peers {
		if err := get(t.Context(), p, "m"); err != nil {
			t.Fatalf("read on %s: %v", p.ID, err)
		}
	}
	last := c.Peers[0]
	stale := metadata.AppendToOutgoingContext(t.Context(), call.HeaderConsistency, "stale")
	// The leader may have answered the read of a follower, which learns of the commit a moment
	// later.
	clustertest.Eventually(t, 20*time.Second, "the machine in the peer's own state",
		func() error { return get(stale, last, "m") })
	c.Kill(c.Peers[1])
	c.Kill(c.Peers[2])

	for name, call := range map[string]func(context.Context) error{
		"write": func(ctx context.Context) error { return register(ctx, last, "m2") },
		"read":  func(ctx context.Context) error { return get(ctx, last, "m") },
	} {
		if err := inTime(t, time.Second, call); status.Code(err) != codes.Unavailable {
			t.Errorf("%s without a quorum: got %v, want UNAVAILABLE", name, err)
		}
	}

	if err := get(stale, last, "m"); err != nil {
		t.Errorf("stale read without a quorum: %v", err)
	}
	st, err := holdfastv1.NewClusterServiceClient(last.Conn).GetClusterStatus(t.Context(),
		&holdfastv1.GetClusterStatusRequest{})
	if err != nil {
		t.Fatalf("status without a quorum: %v", err)
	}
	if got := len(st.GetPeers()); got != 3 {
		t.Errorf("peers in the status: got %d, want 3", got)
	}
	clustertest.Eventually(t, time.Minute, "since when the others are away, and what to do", func() error {
		for _, p := range last.Node.Status(t.Context()).GetPeers()[1:] {
			if p.GetError() == "" || p.GetAwaySince() == nil || !strings.Contains(p.GetNext(), "holdfast operator recover") {
				return fmt.Errorf("status of %s: got %v", p.GetId(), p)
			}
		}
		return nil
	})
}
