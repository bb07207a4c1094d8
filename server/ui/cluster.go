package ui

import (
	"strings"
	"time"

	"github.com/holdfast-metal/holdfast/internal/describe"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/server/ui/history"
	"github.com/holdfast-metal/holdfast/server/ui/internal/display"
)

// clusterBody is the cluster page.
type clusterBody struct {
	Status   *holdfastv1.ClusterStatus
	Newest   uint64 // the highest applied index of all peers
	MayDrill bool
}

func (d *dashboard) cluster(v *visit) error {
	st, err := v.read.cluster.GetClusterStatus(v.ctx, &holdfastv1.GetClusterStatusRequest{})
	b := clusterBody{
		Status:   st,
		MayDrill: v.may("OperatorService/TransferLeadership"),
	}
	for _, p := range st.GetPeers() {
		b.Newest = max(b.Newest, p.GetAppliedIndex())
	}
	return v.page("cluster", "Cluster", "cluster", b, err)
}

// Load returns the load of the leader, or nil if it is unknown.
func (b clusterBody) Load() *holdfastv1.PeerLoad {
	for _, p := range b.Status.GetPeers() {
		if p.GetId() != "" && p.GetId() == b.Status.GetLeader() {
			return p.GetLoad()
		}
	}
	return nil
}

// Commit returns the quantiles of the leader's commit latency, from proposal to answer.
func (b clusterBody) Commit() string {
	l := b.Load()
	if l.GetCommands() == 0 {
		return "-"
	}
	half, most := history.Quantile(l.GetCommits(), 50), history.Quantile(l.GetCommits(), 99)
	return unbroken(display.InTime(half)) + " / " + unbroken(display.InTime(most))
}

// unbroken returns a number that is not broken from its unit.
func unbroken(s string) string { return strings.ReplaceAll(s, " ", "\u00a0") }

// Commands returns the number of commands that the leader has committed.
func (b clusterBody) Commands() int { return int(b.Load().GetCommands()) }

// Leases returns the number of live leases.
func (b clusterBody) Leases() string { return describe.Count(int(b.Load().GetLeases())) }

// Heartbeats returns the heartbeats per second that the leader receives.
func (b clusterBody) Heartbeats() string { return display.Rate(b.Load().GetLeaseRate()) }

// Contact returns the time since a peer heard from the leader.
func (b clusterBody) Contact(p *holdfastv1.Peer) string {
	if d := time.Duration(p.GetLastContactMs()) * time.Millisecond; d >= 10*time.Second {
		return describe.Age(d)
	}
	return display.InTime(time.Duration(max(p.GetLastContactMs(), 1)) * time.Millisecond)
}

// CatchesUp reports whether a voter does not vote yet.
func (b clusterBody) CatchesUp(p *holdfastv1.Peer) bool {
	return !p.GetMayVote() && p.GetSuffrage() == "voter" && p.GetError() == ""
}

// Behind returns the number of entries that another peer has applied and this one has not.
func (b clusterBody) Behind(p *holdfastv1.Peer) uint64 {
	return b.Newest - min(b.Newest, p.GetAppliedIndex())
}
