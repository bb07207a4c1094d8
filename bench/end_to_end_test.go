package bench

import (
	"maps"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-metal/holdfast/bench/contest"
	"github.com/holdfast-metal/holdfast/bench/report"
	"github.com/holdfast-metal/holdfast/bench/rival"
)

// wholeOutcome returns the outcome of three rounds.
func wholeOutcome(rates ...float64) *contest.Outcome {
	return &contest.Outcome{Rate: rates, Latencies: []time.Duration{time.Millisecond},
		CPU: map[string][]float64{"leader": {1}, "servers": {1_300}, "conductor": {45_000}, "api": {20_000}}}
}

// TestWhole checks that verdicts use the ratio to an Ironic in the same rounds, and that there are
// none without one.
func TestWhole(t *testing.T) {
	type row struct {
		ID    string
		Value float64
		Met   string
	}
	us := map[string]*contest.Outcome{"runs": wholeOutcome(400, 300, 900), "gets": wholeOutcome(10_000, 20_000, 30_000)}
	for _, tt := range []struct {
		name  string
		rival map[string]*contest.Outcome
		want  []row // of the first rows
	}{
		{"alone", nil, []row{{"runs.rate", 400, ""}, {"runs.p50", 1, ""}, {"runs.p99", 1, ""},
			{"runs.servers_cpu", 1_300, ""}, {"runs.leader_cpu", 1, ""}, {"runs.gets", 20_000, ""}}},
		{"rate and cost met",
			map[string]*contest.Outcome{rival.IronicDeploys: wholeOutcome(8, 6, 10),
				rival.IronicGets: wholeOutcome(100, 200, 300)},
			[]row{{"runs.vs_ironic", 50, "yes"}, {"runs.cpu_vs_ironic", 0.02, "yes"}, {"runs.p50_vs_ironic", 1, "no"},
				{"runs.gets_vs_ironic", 100, ""}, {"runs.rate", 400, ""}}},
		{"rate missed",
			map[string]*contest.Outcome{rival.IronicDeploys: wholeOutcome(25, 25, 25),
				rival.IronicGets: wholeOutcome(50, 50, 50)},
			[]row{{"runs.vs_ironic", 16, "no"}, {"runs.cpu_vs_ironic", 0.02, "yes"}}},
	} {
		out := map[string]*contest.Outcome{}
		for _, side := range []map[string]*contest.Outcome{us, tt.rival} {
			maps.Copy(out, side)
		}
		r := report.New("runs", "v", time.Now())
		reportEndToEnd(r, out)
		var got []row
		for _, f := range r.Figures {
			met := ""
			if f.Met != nil {
				met = map[bool]string{true: "yes", false: "no"}[*f.Met]
			}
			got = append(got, row{f.ID, f.Value, met})
		}
		if tt.rival != nil && len(got) > len(tt.want) {
			got = got[:len(tt.want)]
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s: -want +got\n%s", tt.name, diff)
		}
	}
}
