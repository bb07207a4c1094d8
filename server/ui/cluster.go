package ui

import (
	"slices"
	"time"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/server/ui/internal/display"
)

// clusterBody is the cluster page.
type clusterBody struct {
	Status   *holdfastv1.ClusterStatus
	Newest   uint64 // the highest applied index of all peers
	Hour     *display.LastHour
	MayDrill bool
}

func (d *dashboard) cluster(v *visit) error {
	st, err := v.read.cluster.GetClusterStatus(v.ctx, &holdfastv1.GetClusterStatusRequest{})
	b := clusterBody{
		Status:   st,
		Hour:     display.HourOf(d.hour.Samples(), v.now()),
		MayDrill: v.rules.may(v.who, "OperatorService/TransferLeadership"),
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

// Commit returns the leader's average commit latency, from proposal to answer.
func (b clusterBody) Commit() string {
	l := b.Load()
	if l.GetCommands() == 0 {
		return "-"
	}
	d := time.Duration(l.GetCommitSeconds() / float64(l.GetCommands()) * float64(time.Second))
	return d.Round(10 * time.Microsecond).String()
}

// CatchesUp reports whether a voter does not vote yet. Peers of older versions report no
// voters at all; then it returns false for every peer.
func (b clusterBody) CatchesUp(p *holdfastv1.Peer) bool {
	told := slices.ContainsFunc(b.Status.GetPeers(), (*holdfastv1.Peer).GetMayVote)
	return told && !p.GetMayVote() && p.GetSuffrage() == "voter" && p.GetError() == ""
}

// Behind returns the number of entries that another peer has applied and this one has not.
func (b clusterBody) Behind(p *holdfastv1.Peer) uint64 {
	return b.Newest - min(b.Newest, p.GetAppliedIndex())
}
