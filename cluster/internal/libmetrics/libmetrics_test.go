package libmetrics

import (
	"testing"

	gometrics "github.com/hashicorp/go-metrics/compat"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
)

// TestBridgeNames checks the names of library metrics in Prometheus.
func TestBridgeNames(t *testing.T) {
	b := &metricsSink{series: map[string]prometheus.Metric{}}
	reg := prometheus.NewRegistry()
	reg.MustRegister(b)
	peer := []gometrics.Label{{Name: "peer_id", Value: "n2"}}
	b.AddSample([]string{"holdfast", "raft", "commitTime"}, 0.25)
	b.AddSample([]string{"holdfast", "raft", "leader", "lastContact"}, 250)
	b.AddSample([]string{"holdfast", "raft", "fsm", "applyBatchNum"}, 7)
	b.SetGauge([]string{"holdfast", "raft", "fsm", "lastRestoreDuration"}, 250)
	b.SetGauge([]string{"holdfast", "raft", "peers"}, 3)
	b.IncrCounter([]string{"holdfast", "memberlist", "tcp", "sent"}, 5)
	b.IncrCounter([]string{"holdfast", "memberlist", "tcp", "sent"}, -1)
	b.IncrCounter([]string{"holdfast", "raft", "peers"}, 1) // one name, two kinds
	b.IncrCounterWithLabels([]string{"holdfast", "raft", "replication", "appendEntries", "logs"}, 2, peer)

	b.SetGauge([]string{"holdfast", "raft", "boltdb", "txstats", "pageCount"}, 11)
	b.SetGauge([]string{"holdfast", "raft", "boltdb", "txstats", "pageAlloc"}, 4096)
	b.SetGauge([]string{"holdfast", "raft", "boltdb", "freelistBytes"}, 512)
	b.IncrCounter([]string{"holdfast", "raft", "boltdb", "txstats", "cursorCount"}, 3)
	b.IncrCounter([]string{"holdfast", "raft", "boltdb", "totalReadTxn"}, 4)

	want := map[string]float64{
		"holdfast_raft_commit_time_seconds": 0.25, "holdfast_raft_leader_last_contact_seconds": 0.25,
		"holdfast_raft_fsm_apply_batch_num":               7,
		"holdfast_raft_fsm_last_restore_duration_seconds": 0.25, "holdfast_raft_peers": 3, "holdfast_raft_peers_total": 1,
		"holdfast_memberlist_tcp_sent_bytes_total":            5,
		"holdfast_raft_replication_append_entries_logs_total": 2,
		"holdfast_raft_boltdb_txstats_pages":                  11, "holdfast_raft_boltdb_txstats_page_alloc_bytes": 4096,
		"holdfast_raft_boltdb_freelist_bytes":        512,
		"holdfast_raft_boltdb_txstats_cursors_total": 3, "holdfast_raft_boltdb_read_transactions_total": 4,
	}
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	if problems, err := promlint.NewWithMetricFamilies(families).Lint(); err != nil || len(problems) > 0 {
		t.Errorf("lint metrics: got problems %v, %v", problems, err)
	}
	for _, f := range families {
		m := f.GetMetric()[0]
		got := m.GetHistogram().GetSampleSum() + m.GetSummary().GetSampleSum() + m.GetGauge().GetValue() +
			m.GetCounter().GetValue()
		if w, ok := want[f.GetName()]; !ok || got-w > 1e-6 || w-got > 1e-6 {
			t.Errorf("%s: got %v, want %v (found: %t)", f.GetName(), got, w, ok)
		}
		delete(want, f.GetName())
	}
	for name := range want {
		t.Errorf("got no metric %s", name)
	}
}
