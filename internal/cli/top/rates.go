package top

import (
	"time"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// rates holds the leader's load per second, computed from two samples.
type rates struct {
	leader   string
	leases   uint64
	renewals float64 // a second

	known    bool          // commands and commit are known: there were two samples of one leader
	commands float64       // a second
	commit   time.Duration // mean time of a command; 0: there was none

	last *holdfastv1.PeerLoad
	at   time.Time
}

// add adds a sample. A new leader, or one that restarted, starts from zero.
func (r *rates) add(st *holdfastv1.ClusterStatus, now time.Time) {
	var load *holdfastv1.PeerLoad
	for _, p := range st.GetPeers() {
		if p.GetId() == st.GetLeader() && p.GetId() != "" {
			load = p.GetLoad()
		}
	}
	before := *r
	*r = rates{leader: st.GetLeader(), leases: load.GetLeases(), renewals: load.GetLeaseRate(), last: load, at: now}
	took := now.Sub(before.at).Seconds()
	if load == nil || before.last == nil || before.leader != r.leader || took <= 0 ||
		load.GetCommands() < before.last.GetCommands() {
		return
	}
	n := float64(load.GetCommands() - before.last.GetCommands())
	r.known, r.commands = true, n/took
	if n > 0 {
		r.commit = time.Duration((load.GetCommitSeconds() - before.last.GetCommitSeconds()) / n * float64(time.Second))
	}
}
