package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/holdfast-metal/holdfast/cluster/clustertest"
	"github.com/holdfast-metal/holdfast/cluster/leader"
)

// slowToEnd is a leader task that ends when the test allows it.
type slowToEnd struct {
	begun chan leader.Term
	ends  chan struct{} // receives when its context has ended
	let   chan struct{}
}

func (s slowToEnd) Run(ctx context.Context, t leader.Term) error {
	s.begun <- t
	<-ctx.Done()
	s.ends <- struct{}{}
	<-s.let
	return nil
}

// elected makes a peer win an election, and returns when it leads in a new term, ready or not. The
// peer calls an election only once it has the leader's entries, because it would lose without the
// last one. It calls it only as a follower, because a leader would lose its term.
func elected(t *testing.T, c *clustertest.Cluster, p *clustertest.Peer) {
	t.Helper()
	var before uint64
	for _, other := range c.Peers {
		before = max(before, other.Node.Term())
	}
	clustertest.Eventually(t, time.Minute, p.ID+" to lead in a new term", func() error {
		term, role := p.Node.Term(), p.Node.Role()
		if role == "leader" && term > before {
			return nil
		}
		id, _, ok := p.Node.Leader()
		for _, l := range c.Peers {
			if role == "follower" && ok && l.ID == id && p.FSM.Applied() >= l.FSM.Applied() {
				p.Node.CallElection()
			}
		}
		return fmt.Errorf("%s in term %d, was in %d", role, term, before)
	})
}

// TestOutdatedLeadershipNotifications loses and wins the leadership twice while the tasks of the
// first term are still ending. The notifications received then concern ended terms, and must not
// end the current one.
func TestOutdatedLeadershipNotifications(t *testing.T) {
	t.Parallel()
	s := slowToEnd{make(chan leader.Term, 64), make(chan struct{}, 64), make(chan struct{})}
	c := clustertest.Start(t,
		clustertest.Options{Configure: calm, Work: clustertest.Leading(s)})
	let := func() { close(s.let) }
	defer func() { let() }()
	leader := c.Leader()
	settled(t, c, 3)
	other := c.Followers(leader)[0]
	<-s.begun

	elected(t, c, other)
	<-s.ends
	elected(t, c, leader)
	elected(t, c, other)
	elected(t, c, leader)
	clustertest.Eventually(t, 10*time.Second, "three pending notifications", func() error {
		if n := leader.Node.PendingNotifications(); n < 3 {
			return fmt.Errorf("%d words", n)
		}
		return nil
	})
	let()
	let = func() {}

	clustertest.Eventually(t, 20*time.Second, "all notifications to be handled and the leader to be ready", func() error {
		if n := leader.Node.PendingNotifications(); n > 0 || !leader.Node.Ready() {
			return fmt.Errorf("%d words, ready: %t", n, leader.Node.Ready())
		}
		return nil
	})
	for _, p := range []*clustertest.Peer{leader, other} {
		clustertest.Eventually(t, 20*time.Second, "a linearizable read on "+p.ID, func() error {
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			defer cancel()
			_, err := p.Node.View(ctx)
			return err
		})
	}
	if err := register(t.Context(), leader, "after"); err != nil {
		t.Errorf("write: %v", err)
	}
}

// fallible is a leader task that fails on request.
type fallible struct {
	begun chan uint64 // the term of each start
	fail  chan error
}

func (f fallible) Run(ctx context.Context, t leader.Term) error {
	f.begun <- t.Epoch
	select {
	case err := <-f.fail:
		return err
	case <-ctx.Done():
		return nil
	}
}

// next returns the term in which the task starts next.
func (f fallible) next(t *testing.T) uint64 {
	t.Helper()
	select {
	case term := <-f.begun:
		return term
	case <-time.After(30 * time.Second):
		t.Fatal("wait for a leader task: timed out")
		return 0
	}
}

// TestFailedTasksRestartInNewTerm checks that tasks restart in a new term if no other peer takes
// the leadership. In the same term, the steps that they left open would be refused forever.
func TestFailedTasksRestartInNewTerm(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name  string
		peers int
	}{
		{"alone", 1},
		{"unreachable peers", 3},
	} {
		t.Run(tc.name, func(t *testing.T) {
			task := fallible{make(chan uint64, 64), make(chan error)}
			c := clustertest.Start(t,
				clustertest.Options{Peers: tc.peers, Work: clustertest.Leading(task)})
			leader := c.Leader()
			settled(t, c, tc.peers)
			for _, p := range c.Followers(leader) {
				p.GRPC.Stop()
			}
			first := task.next(t)

			why := errors.New("task failed")
			pause := func(err error) error {
				return c.Leader().Node.PauseTasks(t.Context(), func(context.Context) error { return err })
			}
			if err := pause(nil); err != nil {
				t.Fatal(err)
			}
			if got := task.next(t); got != first && tc.peers == 1 { // other peers may call an election on a busy machine
				t.Errorf("after a pause: got term %d, want %d", got, first)
			}
			if err := pause(why); !errors.Is(err, why) {
				t.Fatalf("failed pause: got %v, want %v", err, why)
			}
			second := task.next(t)
			if second <= first {
				t.Errorf("after a failed pause: got term %d, want one after %d", second, first)
			}
			task.fail <- why
			if got := task.next(t); got <= second {
				t.Errorf("after a failed task: got term %d, want one after %d", got, second)
			}
			if _, err := c.Leader().Node.Apply(t.Context(), clustertest.Register("after")); err != nil {
				t.Errorf("write: %v", err)
			}
		})
	}
}
