package ui_test

import (
	"fmt"
	"strings"
	"testing"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// TestOverviewOrder checks that the tiles that call for action come first, that racks without a
// location have a heading of their own, and that large numbers are smaller.
func TestOverviewOrder(t *testing.T) {
	l := lab(t)
	w := get(l, "admin", "/ui/")
	has(t, w, 200, []string{"<h3>no location</h3>", `id="h-pools"`, `<span>RMA</span>`},
		`class="long"`)
	page := w.Body.String()
	at := 0
	for _, tile := range []string{"<span>machines</span>", "<span>need attention</span>", `href="/ui/cluster"><b>`,
		"<span>factory ready</span>"} {
		i := strings.Index(page[at:], tile)
		if i < 0 {
			t.Fatalf("got no %s after the tiles before it", tile)
		}
		at += i
	}
}

// TestMachineStates checks that the page of a machine names each issue once, and the operator and
// the comment of its phase.
func TestMachineStates(t *testing.T) {
	l := lab(t)
	l.Do(&internalv1.SetMachinePhase{MachineId: "m-2", Phase: holdfastv1.MachineStatus_IN_SERVICE, Comment: "why " + evil})
	l.Do(&internalv1.ObserveConditions{Machines: []*internalv1.MachineConditions{{MachineId: "m-2",
		Conditions: []*holdfastv1.Condition{
			{Type: "BMCReachable", Status: true}, {Type: "InCustomerCluster"}, {Type: "PoweredOn", Reason: "NotByRun"},
			{Type: "Reachable", Reason: "PoweredOff"},
			{Type: "Degraded", Status: true, Reason: "DiskFailed", Message: "slot 3 " + evil},
		}}}})
	w := get(l, "admin", "/ui/machines/m-2")
	has(t, w, 200, []string{"<div>Degraded (DiskFailed): slot 3 &lt;script&gt;", ": why &lt;script&gt;",
		"<dt>state</dt><dd>shown as READY until its node is seen in a cluster</dd>", ">power off</span>",
		`<p class="summary trouble">powered off`}, `<div class="error">`, "<div>PoweredOff", evil)
}

// TestTotals checks the totals and the pages of the lists of pools and plans.
func TestTotals(t *testing.T) {
	l := lab(t)
	for i := range 101 {
		l.Do(&internalv1.CreatePool{Pool: &holdfastv1.Pool{PoolId: fmt.Sprintf("p-%03d", i)}})
	}
	w := get(l, "admin", "/ui/pools")
	has(t, w, 200, []string{"1 to 100 of 103 pools", `rel="next">Next page`}, "First page")
	_, next, _ := strings.Cut(w.Body.String(), `<a class="button" href="`)
	next, _, _ = strings.Cut(next, `"`)
	has(t, get(l, "admin", strings.ReplaceAll(next, "&amp;", "&")), 200, []string{"101 to 103 of 103 pools", "First page"},
		"Next page")
	has(t, get(l, "admin", "/ui/plans"), 200, []string{" plans</p>"})
}

// TestClusterFigures checks the figures of the leader, and the page of a peer without a leader.
func TestClusterFigures(t *testing.T) {
	l := lab(t)
	st := &holdfastv1.ClusterStatus{Leader: "p1", AnsweredBy: "p1", FailureTolerance: 1, Peers: []*holdfastv1.Peer{
		{Id: "p1", Suffrage: "voter", Leader: true, Alive: true, Load: &holdfastv1.PeerLoad{Leases: 12345, LeaseRate: 617.3,
			Commands: 1000, CommitSeconds: 9, Commits: []uint64{500, 0, 0, 490, 10}}},
		{Id: "p2", Suffrage: "voter", Alive: true, LastContactMs: 24}, {Id: "p3", Suffrage: "voter", LastContactMs: 140716},
	}}
	l.SetStatus(st)
	has(t, get(l, "admin", "/ui/cluster"), 200, []string{
		">12 345</b><span>leases, 617 heartbeats/s", ">0.1\u00a0ms / 0.3\u00a0ms</b>",
		"commit latency p50 / p99, of 1 000 commands", ">24 ms ago<", ">2m ago<", `href="/ui/drill"`,
		"holdfast operator snapshot save FILE",
	})
	st.Leader, st.Peers[0].Leader = "", false
	l.SetStatus(st)
	has(t, get(l, "admin", "/ui/cluster"), 200, []string{`<div class="tile t-bad"><b>none</b>`}, `href="/ui/drill"`)
}
