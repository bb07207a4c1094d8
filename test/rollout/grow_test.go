package rollout

import (
	"context"
	"testing"
	"time"

	"github.com/holdfast-metal/holdfast/internal/wait"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// grows adds two hosts to the inventory. site.yml must make five peers of three, and then two may
// fail at once, the leader among them.
func (l *lab) grows(t *testing.T) {
	more := []string{"n4", "n5"}
	l.hosts = append(l.hosts, more...)
	tr := l.traffic(t, "grow")
	run(t, l.script(), append([]string{"up", l.disks()}, more...)...)
	l.writeInventory(t)
	l.mustPlay(t, "site.yml", "-e", "holdfast_binary="+l.next)
	tr.end(t, "the growth from three hosts to five")
	if n := l.mustPlay(t, "site.yml", "-e", "holdfast_binary="+l.next); n != 0 {
		t.Errorf("second run on five hosts: got %d changes, want 0", n)
	}
	l.runs(t, "v0.0.2")

	tr = l.traffic(t, "two")
	leader := l.status(t).GetLeader()
	lost := []string{leader, "n4"}
	if leader == "n4" {
		lost[1] = "n5"
	}
	for _, name := range lost {
		run(t, l.script(), "kill", l.disks(), name)
	}
	l.until(t, "a leader of the three remaining peers, and no failure tolerance", func(s *holdfastv1.ClusterStatus) bool {
		return s.GetLeader() != "" && s.GetLeader() != leader && s.GetFailureTolerance() == 0
	})
	for _, name := range lost {
		run(t, l.script(), "boot", l.disks(), name)
	}
	l.until(t, "tolerance of two", func(s *holdfastv1.ClusterStatus) bool { return s.GetFailureTolerance() == 2 })
	tr.end(t, "the loss of two hosts of five, the leader's among them")
	l.runs(t, "v0.0.2")
}

func (l *lab) status(t *testing.T) *holdfastv1.ClusterStatus {
	t.Helper()
	s, err := l.client(t).Cluster().GetClusterStatus(t.Context(), &holdfastv1.GetClusterStatusRequest{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// until blocks until the status of the cluster satisfies ok.
func (l *lab) until(t *testing.T, name string, ok func(*holdfastv1.ClusterStatus) bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	c := l.client(t)
	for {
		s, err := c.Cluster().GetClusterStatus(ctx, &holdfastv1.GetClusterStatusRequest{})
		if err == nil && ok(s) {
			return
		}
		if ctx.Err() != nil {
			t.Fatalf("wait for %s: last status %v, %v", name, s, err)
		}
		_ = wait.Sleep(ctx, 200*time.Millisecond)
	}
}
