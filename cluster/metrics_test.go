package cluster_test

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"github.com/holdfast-metal/holdfast/cluster"
	"github.com/holdfast-metal/holdfast/cluster/clustertest"
)

func TestMetrics(t *testing.T) {
	process, own := prometheus.NewRegistry(), prometheus.NewRegistry()
	if err := cluster.BridgeMetrics(process); err != nil {
		t.Fatal(err)
	}
	c := clustertest.Start(t,
		clustertest.Options{Peers: 1, Configure: func(_ int, c *cluster.Config) { c.Registerer = own }})
	p := c.Leader()
	if err := register(t.Context(), p, "m"); err != nil {
		t.Fatal(err)
	}
	if err := get(t.Context(), p, "m"); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]float64{
		"holdfast_cluster_is_leader": 1, "holdfast_cluster_has_leader": 1, "holdfast_cluster_voters": 1,
		"holdfast_cluster_reads_total":   1,
		"holdfast_cluster_apply_seconds": 1, "holdfast_cluster_entry_commands": 1, "holdfast_cluster_last_contact_seconds": 0,
		"holdfast_cluster_death_watch_elections_total": 0, "holdfast_cluster_queue_commands": 0,
	} {
		if got, ok := value(t, own, name); !ok || got != want {
			t.Errorf("%s: got %v (found: %t), want %v", name, got, ok, want)
		}
	}
	before := float64(p.FSM.Applied()) // the leader also writes entries of its own
	if got, ok := value(t, own, "holdfast_cluster_applied_index"); !ok || got < before || got > float64(p.FSM.Applied()) {
		t.Errorf("holdfast_cluster_applied_index: got %v (found: %t), want %v or little more", got, ok, before)
	}
	if got, ok := value(t, process, "holdfast_raft_apply_total"); !ok || got < 2 {
		t.Errorf("holdfast_raft_apply_total: got %v (found: %t), want at least 2", got, ok)
	}
	all, err := process.Gather()
	if err != nil {
		t.Fatal(err)
	}
	problems, err := promlint.NewWithMetricFamilies(all).Lint() // the findings of promtool check metrics
	if err != nil || len(problems) > 0 {
		t.Errorf("lint metrics: got problems %v, %v", problems, err)
	}
	if got, ok := value(t, process, "holdfast_raft_commit_time_seconds"); !ok || got < 1 {
		t.Errorf("holdfast_raft_commit_time_seconds: got %v observations (found: %t), want some", got, ok)
	}
	cfg := newConfig("", "again")
	cfg.Registerer = own
	refused(t, cfg, "register metrics")
}

// value returns the value of a metric, or the number of observations of a histogram.
func value(t *testing.T, g prometheus.Gatherer, name string) (float64, bool) {
	t.Helper()
	families, err := g.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != name || len(f.GetMetric()) == 0 {
			continue
		}
		m := f.GetMetric()[0]
		switch {
		case m.GetHistogram() != nil:
			return float64(m.GetHistogram().GetSampleCount()), true
		case m.GetCounter() != nil:
			return m.GetCounter().GetValue(), true
		}
		return m.GetGauge().GetValue(), true
	}
	return 0, false
}
