package cluster

import (
	"fmt"
	"sort"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/holdfast-metal/holdfast/cluster/internal/libmetrics"
	"github.com/holdfast-metal/holdfast/cluster/internal/route"
	"github.com/holdfast-metal/holdfast/cluster/outcome"
)

// metrics are the metrics of this package.
type metrics struct {
	applySeconds  *prometheus.HistogramVec
	batchSize     prometheus.Histogram
	reads         *prometheus.CounterVec
	forwards      *prometheus.CounterVec
	deathWatch    prometheus.Counter
	refusedPeers  prometheus.Counter
	refusedGossip prometheus.Counter

	// Counts of applied commands, for the status.
	commands    atomic.Uint64
	commitNanos atomic.Int64
	commits     [CommitBounds + 1]atomic.Uint64 // by duration
}

func newMetrics(reg prometheus.Registerer, n *Peer) (*metrics, error) {
	gauge := func(name, help string, f func() float64) prometheus.Collector {
		opts := prometheus.GaugeOpts{Namespace: "holdfast", Subsystem: "cluster", Name: name, Help: help}
		return prometheus.NewGaugeFunc(opts, func() float64 {
			if !n.opened.Load() {
				return 0
			}
			return f()
		})
	}
	opts := func(name, help string) prometheus.CounterOpts {
		return prometheus.CounterOpts{Namespace: "holdfast", Subsystem: "cluster", Name: name, Help: help}
	}
	m := &metrics{
		applySeconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: "holdfast", Subsystem: "cluster", Name: "apply_seconds",
			Help:    "Time from the proposal of a command to its answer, by result: applied, not_applied, unknown.",
			Buckets: prometheus.ExponentialBuckets(0.00025, 2, 16),
		}, []string{"result"}),
		batchSize: prometheus.NewHistogram(prometheus.HistogramOpts{
			Namespace: "holdfast", Subsystem: "cluster", Name: "entry_commands",
			Help:    "Commands that shared one Raft entry.",
			Buckets: prometheus.ExponentialBuckets(1, 2, 11),
		}),
		reads: prometheus.NewCounterVec(
			opts("reads_total", "Reads by where they were served: leader, follower, forwarded, stale."),
			[]string{"served"},
		),
		forwards: prometheus.NewCounterVec(
			opts("forwards_total", "Calls made on the leader for a client, by result: answered, not_applied, unknown."),
			[]string{"result"},
		),
		refusedPeers: prometheus.NewCounter(
			opts("refused_peers_total", "Connections, Raft messages and calls of peers that were refused, because they are no "+
				"members or were removed."),
		),
		refusedGossip: prometheus.NewCounter(
			opts("refused_gossip_total", "Packets and connections at the port of gossip that were refused, because they could "+
				"not be decrypted or decoded."),
		),
		deathWatch: prometheus.NewCounter(
			opts("death_watch_elections_total", "Elections called because the leader's process was seen to end."),
		),
	}
	for _, result := range route.Results() { // rates need series that begin at zero
		m.forwards.WithLabelValues(result)
	}
	if reg == nil {
		return m, nil
	}
	for _, c := range []prometheus.Collector{
		m.applySeconds, m.batchSize, m.reads, m.forwards, m.deathWatch, m.refusedPeers, m.refusedGossip,
		gauge("is_leader", "1 when this peer leads and is ready.", func() float64 {
			return flag(n.Ready())
		}),
		gauge("has_leader", "1 when this peer knows a leader.", func() float64 {
			_, _, ok := n.Leader()
			return flag(ok)
		}),
		gauge("applied_index", "Raft index of this peer's state.", func() float64 { return float64(n.fsm.Applied()) }),
		gauge("commit_index", "Raft index that this peer knows to be committed.", func() float64 {
			return float64(n.raft.CommitIndex())
		}),
		gauge("term", "Raft term.", func() float64 { return float64(n.raft.CurrentTerm()) }),
		gauge("queue_commands", "Commands that wait for a place in a Raft entry of this leader.", func() float64 {
			return float64(n.committer.Waiting())
		}),
		gauge("clock_offset_seconds", "How far this peer's clock is ahead of a majority of the voters' clocks.",
			func() float64 { return n.clocks.Offset().Seconds() }),
		gauge("stale_directory", "1 while this peer may not vote, because its data directory is or was older than what it "+
			"had acknowledged, or a copy.", func() float64 { return flag(n.report.unfit() != "") }),
		gauge("voters", "Voters in the Raft configuration.", func() float64 {
			others, self := n.raft.voters()
			return float64(len(others)) + flag(self)
		}),
		gauge("disk_free_bytes", "Free space of the file system of the data directory.", func() float64 {
			free, _, _ := n.stores.Space()
			return float64(free)
		}),
		gauge("disk_size_bytes", "Size of the file system of the data directory; 0 in memory.", func() float64 {
			_, total, _ := n.stores.Space()
			return float64(total)
		}),
		gauge("last_contact_seconds", "Time since the last contact with the leader; 0 on it, -1 for never.", func() float64 {
			if ms := n.report.lastContact(); ms >= 0 {
				return float64(ms) / 1000
			}
			return -1
		}),
	} {
		if err := reg.Register(c); err != nil {
			return nil, fmt.Errorf("register metrics: %w", err)
		}
	}
	return m, nil
}

// flag returns the value of a gauge that is 1 for true.
func flag(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

func (m *metrics) applied(d time.Duration, err *outcome.Error) {
	result := "applied"
	switch {
	case err == nil:
		m.commands.Add(1)
		m.commitNanos.Add(int64(d))
		m.commits[commitPlace(d)].Add(1)
	case err.Outcome == outcome.Unknown:
		result = "unknown"
	default:
		result = "not_applied"
	}
	m.applySeconds.WithLabelValues(result).Observe(d.Seconds())
}

// CommitBounds is the number of bounds of PeerLoad.commits. It has one more count, for
// commands slower than all bounds (about 5 s).
const CommitBounds = 32

// CommitBound returns the upper bound of bucket i of PeerLoad.commits: 0.1 ms, 0.15 ms, and
// then twice the bound before the previous one.
func CommitBound(i int) time.Duration {
	d := 100 * time.Microsecond << (i / 2)
	if i%2 == 1 {
		d += d / 2
	}
	return d
}

// commitPlace returns the bucket for a command that took d.
func commitPlace(d time.Duration) int {
	return sort.Search(CommitBounds, func(i int) bool { return d <= CommitBound(i) })
}

func (m *metrics) batched(commands int) { m.batchSize.Observe(float64(commands)) }

func (m *metrics) read(served string) { m.reads.WithLabelValues(served).Inc() }

func (m *metrics) forwarded(result string) { m.forwards.WithLabelValues(result).Inc() }

// BridgeMetrics exports the metrics of raft, memberlist and bolt to a Prometheus
// registerer, as holdfast_raft_… and so on, with Prometheus names and units. These
// libraries share one sink per process, so call it once, before New.
func BridgeMetrics(reg prometheus.Registerer) error { return libmetrics.Bridge(reg) }
