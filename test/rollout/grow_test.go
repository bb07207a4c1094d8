package rollout

import (
	"context"
	"testing"
	"time"

	"github.com/holdfast-metal/holdfast/internal/wait"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// grows: with two more hosts in the inventory, site.yml makes five peers of three, and then two may
// lose their power at once, the leader among them.
func (l *lab) grows(t *testing.T) {
	more := []string{"n4", "n5"}
	l.hosts = append(l.hosts, more...)
	tr := l.traffic(t, "grow")
	run(t, l.script(), append([]string{"up", l.disks()}, more...)...)
	l.writeInventory(t)
	l.mustPlay(t, "site.yml", "-e", "holdfast_binary="+l.next)
	tr.end(t, "the growth from three hosts to five")
	if n := l.mustPlay(t, "site.yml", "-e", "holdfast_binary="+l.next); n != 0 {
		t.Errorf("the second run on five hosts changed %d things, want none", n)
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
	l.until(t, "the three that are left lead, and none of them may fail", func(s *holdfastv1.ClusterStatus) bool {
		return s.GetLeader() != "" && s.GetLeader() != leader && s.GetFailureTolerance() == 0
	})
	for _, name := range lost {
		run(t, l.script(), "boot", l.disks(), name)
	}
	l.until(t, "two may fail again", func(s *holdfastv1.ClusterStatus) bool { return s.GetFailureTolerance() == 2 })
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

// until waits until the cluster's status is as wanted.
func (l *lab) until(t *testing.T, what string, ok func(*holdfastv1.ClusterStatus) bool) {
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
			t.Fatalf("not seen: %s; the last status: %v, %v", what, s, err)
		}
		_ = wait.Sleep(ctx, 200*time.Millisecond)
	}
}
