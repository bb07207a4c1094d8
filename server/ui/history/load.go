package history

import (
	"context"
	"time"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/server/ui/history/series"
)

// answer is the report of a leader. Without a leader, load is nil.
type answer struct {
	at     time.Time
	leader string
	load   *holdfastv1.PeerLoad
}

// takeLoad adds a sample of the leader's load. If the leader does not answer there is none, so
// that the outage is a gap.
func (h *History) takeLoad(ctx context.Context) {
	leader, load, err := h.cluster.LeaderLoad(ctx)
	now := answer{at: h.now()}
	if err == nil {
		now.leader, now.load = leader, load
		h.noteLeader(now)
		h.fixed.Add(heartbeats, series.Mean, now.at, load.GetLeaseRate())
		h.addRates(h.before, now)
	}
	h.before = now
}

// noteLeader records a change of the leader.
func (h *History) noteLeader(now answer) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if n := len(h.leaders); n > 0 && h.leaders[n-1].ID == now.leader {
		return
	}
	if len(h.leaders) == maxLeaders {
		h.leaders = append(h.leaders[:0], h.leaders[1:]...)
	}
	h.leaders = append(h.leaders, Leader{now.at, now.leader})
}

// addRates adds the work between two answers of the same leader, unless it has restarted.
func (h *History) addRates(was, now answer) {
	d := now.at.Sub(was.at)
	restarted := now.load.GetCommands() < was.load.GetCommands()
	if was.load == nil || now.load == nil || was.leader != now.leader || d <= 0 || restarted {
		return
	}
	h.fixed.Add(commands, series.Mean, now.at, float64(now.load.GetCommands()-was.load.GetCommands())/d.Seconds())
	counts := make([]uint64, 0, len(now.load.GetCommits()))
	for i, n := range now.load.GetCommits() {
		if i < len(was.load.GetCommits()) {
			n -= min(n, was.load.GetCommits()[i]) // the counters are not read atomically
		}
		counts = append(counts, n)
	}
	if p99 := Quantile(counts, 99); p99 > 0 {
		h.fixed.Add(commitP50, series.Mean, now.at, Quantile(counts, 50).Seconds())
		h.fixed.Add(commitP99, series.Max, now.at, p99.Seconds())
	}
	h.addBMCs(was, now)
}

// addBMCs adds the failed operations on BMCs between two answers, by provider.
func (h *History) addBMCs(was, now answer) {
	failed := map[string]uint64{}
	for _, p := range was.load.GetBmc() {
		failed[p.GetProvider()] = p.GetFailed()
	}
	for _, p := range now.load.GetBmc() {
		n := float64(p.GetFailed() - min(p.GetFailed(), failed[p.GetProvider()]))
		store, name := h.bmcs, bmcErrors+p.GetProvider()
		if !store.Add(name, series.Sum, now.at, n) {
			store, name = h.fixed, bmcOthers
			store.Add(name, series.Sum, now.at, n)
		}
		store.Cover(name, was.at, now.at)
	}
}
