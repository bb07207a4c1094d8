package bench

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-metal/holdfast/internal/bench/report"
)

// wholeOutcome is what three rounds have shown.
func wholeOutcome(rates ...float64) *outcome {
	return &outcome{rate: rates, latencies: []time.Duration{time.Millisecond},
		cpu: map[string][]float64{"leader": {1}, "conductor": {45_000}, "api": {20_000}}}
}

// TestWhole: verdicts are about ratios to an Ironic that took turns; without one there are none.
func TestWhole(t *testing.T) {
	type row struct {
		ID    string
		Value float64
		Met   string
	}
	us := map[string]*outcome{"runs": wholeOutcome(400, 300, 900), "gets": wholeOutcome(10_000, 20_000, 30_000)}
	for _, tt := range []struct {
		name  string
		rival map[string]*outcome
		want  []row // of the first rows
	}{
		{"nobody", nil, []row{{"runs.rate", 400, ""}, {"runs.p50", 1, ""}, {"runs.p99", 1, ""}, {"runs.leader_cpu", 1, ""},
			{"runs.gets", 20_000, ""}}},
		{"both met", map[string]*outcome{ironicDeploys: wholeOutcome(8, 6, 10), ironicGets: wholeOutcome(100, 100, 100)},
			[]row{{"runs.vs_ironic", 50, "yes"}, {"runs.gets_vs_ironic", 200, "yes"}, {"runs.rate", 400, ""}}},
		{"one missed", map[string]*outcome{ironicDeploys: wholeOutcome(8, 6, 10), ironicGets: wholeOutcome(100, 200, 300)},
			[]row{{"runs.vs_ironic", 50, "yes"}, {"runs.gets_vs_ironic", 100, "no"}}},
		{"the other one", map[string]*outcome{ironicDeploys: wholeOutcome(10, 10, 10), ironicGets: wholeOutcome(50, 50, 50)},
			[]row{{"runs.vs_ironic", 40, "no"}, {"runs.gets_vs_ironic", 400, "yes"}}},
	} {
		out := map[string]*outcome{}
		for _, side := range []map[string]*outcome{us, tt.rival} {
			for name, o := range side {
				out[name] = o
			}
		}
		r := report.New("runs", "v", time.Now())
		reportWhole(r, out)
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

// TestContenderRate: where operations are long, clients that are done sooner than others do not
// count against them.
func TestContenderRate(t *testing.T) {
	// Two clients and a slice of 2 s: one is done after 2 s, with two operations, the other after 3
	// s with one.
	latencies, took := []time.Duration{time.Second, time.Second, 3 * time.Second}, 3*time.Second
	for _, tt := range []struct {
		clients int
		want    float64
	}{{0, 1}, {2, 1.2}} {
		if got := (&contender{clients: tt.clients}).rate(latencies, took); got != tt.want {
			t.Errorf("%d clients: got %v, want %v", tt.clients, got, tt.want)
		}
	}
}

// TestIronicTakes: a node is deployed once.
func TestIronicTakes(t *testing.T) {
	i := &ironic{nodes: []string{"a", "b"}}
	var got []string
	for range 3 {
		id, _ := i.take() // the third fails: there is none
		got = append(got, id)
	}
	if diff := cmp.Diff([]string{"a", "b", ""}, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}
