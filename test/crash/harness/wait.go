package harness

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-metal/holdfast/internal/localcluster"
)

// Until blocks until cond holds. If that takes too long, it fails the test with the last
// state from cond.
func Until(t testing.TB, what string, cond func() (ok bool, state any)) {
	t.Helper()
	timeout := time.NewTimer(Patience)
	defer timeout.Stop()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		ok, state := cond()
		if ok {
			return
		}
		select {
		case <-tick.C:
		case <-timeout.C:
			t.Fatalf("waited %s for %s: now %v", Patience, what, state)
		}
	}
}

// TheLeader waits for a leader and returns it.
func (c *Cluster) TheLeader() *localcluster.Peer {
	c.t.Helper()
	ctx, stop := context.WithTimeout(c.context(), Patience)
	defer stop()
	p, err := c.Leader(ctx)
	if err != nil {
		c.t.Fatal(err)
	}
	return p
}

// Followers returns the peers that do not lead.
func (c *Cluster) Followers() []*localcluster.Peer {
	c.t.Helper()
	leader := c.TheLeader()
	var others []*localcluster.Peer
	for _, p := range c.Peers() {
		if p != leader {
			others = append(others, p)
		}
	}
	return others
}

// Ready blocks until all running peers know a leader.
func (c *Cluster) Ready() {
	c.t.Helper()
	ctx, stop := context.WithTimeout(c.context(), Patience)
	defer stop()
	if err := c.WaitReady(ctx); err != nil {
		c.t.Fatal(err)
	}
}

// Restart starts a peer that is down, and blocks until it has caught up with the others.
func (c *Cluster) Restart(p *localcluster.Peer) {
	c.t.Helper()
	began := time.Now()
	leader, err := c.TheLeader().Readiness(c.context())
	if err != nil {
		c.t.Fatal(err)
	}
	if err := p.Start(c.context()); err != nil {
		c.t.Fatal(err)
	}
	c.Ready()
	Until(c.t, "peer "+p.ID+" to catch up", func() (bool, any) {
		r, err := p.Readiness(c.context())
		return err == nil && r.AppliedIndex >= leader.AppliedIndex, r
	})
	c.t.Logf("peer %s was back %s after its restart", p.ID, time.Since(began).Round(time.Millisecond))
}

// Killed blocks until a peer has died at a failpoint, and returns it and the time. All
// peers must be up before.
func (c *Cluster) Killed() (*localcluster.Peer, time.Time) {
	c.t.Helper()
	died := make(chan *localcluster.Peer, len(c.Peers()))
	for _, p := range c.Peers() {
		done := p.Done()
		go func() { // ends with the peer
			<-done
			died <- p
		}()
	}
	select {
	case p := <-died:
		return p, time.Now()
	case <-time.After(Patience):
		c.t.Fatal("a leader was to die and all peers live")
	}
	return nil, time.Time{}
}

// Stopped blocks until a peer has stopped itself at a failpoint, and returns it.
func (c *Cluster) Stopped(point Failpoint) *localcluster.Peer {
	c.t.Helper()
	return c.StoppedAt(fmt.Sprint(point), func() (int, bool) { return c.Points.Reached(point) })
}

// StoppedAt is like Stopped for another kind of place: reached returns the id of the
// process that has reached it.
func (c *Cluster) StoppedAt(point string, reached func() (pid int, ok bool)) *localcluster.Peer {
	c.t.Helper()
	var stopped *localcluster.Peer
	Until(c.t, "a leader to stop", func() (bool, any) {
		pid, ok := reached()
		for _, p := range c.Peers() {
			if ok && p.PID() == pid && hasStopped(pid) {
				stopped = p
			}
		}
		return stopped != nil, point
	})
	return stopped
}

// hasStopped reports whether a process is in state T (proc(5)).
func hasStopped(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, rest, _ := strings.Cut(string(b), ") ") // the preceding name may contain anything
	return strings.HasPrefix(rest, "T")
}
