package chart

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-metal/holdfast/server/ui/history"
	"github.com/holdfast-metal/holdfast/server/ui/history/series"
)

// line returns a line of n equal points; those from one until before another are unknown.
func line(name string, kind series.Kind, n, from, to int, v float64) history.Line {
	end := time.Date(2026, 1, 29, 16, 0, 0, 0, time.UTC)
	l := history.Line{Name: name, Kind: kind, Step: time.Hour / time.Duration(n), Every: time.Hour / time.Duration(n)}
	l.From = end.Add(-time.Hour)
	for i := range n {
		p := series.Point{Value: v, Periods: 1}
		if i >= from && i < to {
			p = series.Point{}
		}
		l.Points = append(l.Points, p)
	}
	return l
}

// window returns an hour in which the leader dies: its load is unknown for 10 minutes.
func window() *history.Window {
	end := time.Date(2026, 1, 29, 16, 0, 0, 0, time.UTC)
	w := &history.Window{Range: history.RangeOf("1h"), From: end.Add(-time.Hour), To: end,
		Leaders: []history.Leader{{At: end.Add(-9 * time.Hour), ID: "n1"}, {At: end.Add(-20 * time.Minute), ID: "n2"},
			{At: end.Add(-19 * time.Minute), ID: "n3"}, {At: end.Add(-time.Minute), ID: "n1"}},
		Machines: []history.Line{line("READY", series.Last, 360, 0, 60, 30), line("IN_SERVICE", series.Last, 360, 0, 60, 10),
			line("RMA", series.Last, 360, 0, 60, 0)},
		Runs:       []history.Line{line("SUCCEEDED", series.Sum, 60, 0, 0, 4), line("FAILED", series.Sum, 60, 0, 0, 1)},
		Heartbeats: line("heartbeats", series.Mean, 360, 240, 300, 30),
		Commands:   line("commands", series.Mean, 360, 240, 300, 4),
		P50:        line("p50", series.Mean, 360, 240, 300, .002),
		P99:        line("p99", series.Max, 360, 240, 300, .009),
	}
	for i := range 9 {
		w.BMCErrors = append(w.BMCErrors, line(fmt.Sprintf("site-%d", i), series.Sum, 60, 0, 0, float64(i)))
	}
	w.BMCErrors = append(w.BMCErrors, line("", series.Sum, 60, 0, 0, 100))
	return w
}

// TestCharts: each chart has its lines with gaps where values are unknown, a label that says the
// same, and changes of the leader whose labels do not overlap.
func TestCharts(t *testing.T) {
	w := window()
	var got []string
	for _, c := range append(Fleet(w), Cluster(w)...) {
		text := c.Label + ";"
		for _, l := range append(c.Areas, c.Lines...) {
			text += fmt.Sprintf(" %s %s %d,", l.Class, l.Name, strings.Count(l.D, "M"))
		}
		for _, m := range c.Marks {
			text += fmt.Sprintf(" %d=%s", m.At, m.Label)
		}
		got = append(got, text)
	}
	marks := " 536=n2 548= 764=n1"
	want := []string{
		"Machines by state, last 1 hour: now 40, 30 ready, 10 in service, maximum 40; c-2 ready 1, c-4 in service 1,",
		"Ended runs per minute, last 1 hour: 300 ended, 60 failed, maximum 4; l-good succeeded 1, l-bad failed 1,",
		"BMC errors per minute, last 1 hour: 8 160 in total, maximum 103; l-1 site-8 1, l-2 site-7 1, l-3 site-6 1, " +
			"l-4 site-5 1, l-5 site-4 1, l-6 site-3 1, l-7 other providers 1," + marks,
		"Heartbeats/s, last 1 hour: now 30, maximum 30; p-half heartbeats/s 2," + marks,
		"Commands/s, last 1 hour: now 4, maximum 4; p-half commands/s 2," + marks,
		"Commit latency p50 / p99, last 1 hour: now 2 ms / 9 ms, maximum 9 ms; p-most p99 2, p-half p50 2," + marks,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("charts (-want +got):\n%s", diff)
	}
}

// TestAreas: a stacked chart has a step for each change, and nothing where values are unknown.
func TestAreas(t *testing.T) {
	a, b := line("a", series.Last, 4, 1, 2, 1), line("b", series.Last, 4, 1, 2, 1)
	a.Points[3].Value = 3
	p := plot{stacked: true, measures: []measure{{"x", "a", a, count}, {"y", "b", b, count}}}
	want := []Curve{{"x", "a", "M56 150V116H236V150H56ZM416 150V116H596V48H776V150H416Z"},
		{"y", "b", "M56 116V82H236V116H56ZM416 116V82H596V14H776V48H596V116H416Z"}}
	if diff := cmp.Diff(want, p.areas(4)); diff != "" {
		t.Errorf("areas (-want +got):\n%s", diff)
	}
}

// TestTable: the table has the values of the chart and begins with the first sample.
func TestTable(t *testing.T) {
	w := window()
	table := Fleet(w)[0].Table
	if diff := cmp.Diff([]string{"ready", "in service", "RMA"}, table.Heads); diff != "" {
		t.Errorf("heads (-want +got):\n%s", diff)
	}
	if len(table.Rows) != 10 {
		t.Errorf("got %d rows, want 10: nothing is known of the first 10 minutes", len(table.Rows))
	}
	want := Row{"10 min to 5 min ago", "2026-01-29 15:50 UTC to 2026-01-29 15:55 UTC", []string{"30", "10", "0"}}
	if diff := cmp.Diff(want, table.Rows[1]); diff != "" {
		t.Errorf("row (-want +got):\n%s", diff)
	}
	if got := Fleet(w)[1].Table.Rows[0].Cells; !cmp.Equal(got, []string{"20", "5"}) {
		t.Errorf("got runs %q, want 20 and 5 in 5 minutes", got)
	}
	if got := Cluster(w)[2].Table.Rows[3].Cells; !cmp.Equal(got, []string{"-", "-"}) {
		t.Errorf("without a leader: got latencies %q, want none", got)
	}
}

// TestEmpty: charts without a sample say so.
func TestEmpty(t *testing.T) {
	for _, r := range history.Ranges() {
		w := history.New(history.Config{}, nil, nil).Window(r)
		for _, c := range append(Fleet(w), Cluster(w)...) {
			if c.Empty == "" || c.Now == "" {
				t.Errorf("%s of %s: got %+v, want the reason why it is empty", c.ID, r.Name, c)
			}
		}
	}
}

// TestData: an unknown value is null, and the numbers of the fleet can be left out.
func TestData(t *testing.T) {
	for fleet, want := range map[bool]int{true: 19, false: 4} {
		b, err := json.Marshal(DataOf(window(), fleet))
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Count(string(b), `"chart":`); got != want {
			t.Errorf("fleet %t: got %d series, want %d", fleet, got, want)
		}
		if !strings.Contains(string(b), "[30,") || !strings.Contains(string(b), "30,null,") {
			t.Errorf("fleet %t: got no heartbeats with a gap", fleet)
		}
	}
}

func TestRound(t *testing.T) {
	for v, want := range map[float64]float64{0: 1, .3: .5, 1: 1, 1.1: 2, 4: 5, 7: 10, 100: 100, 101: 200, 2e6: 2e6} {
		if got := round(v); got < want*.999 || got > want*1.001 {
			t.Errorf("round(%v): got %v, want %v", v, got, want)
		}
	}
}

func TestShort(t *testing.T) {
	for d, want := range map[time.Duration]string{0: "0 min", 55 * time.Minute: "55 min", time.Hour: "1 h",
		90 * time.Minute: "1.5 h", 24 * time.Hour: "24 h", 48 * time.Hour: "48 h", 72 * time.Hour: "3 d",
		14 * 24 * time.Hour: "14 d"} {
		if got := short(d); got != want {
			t.Errorf("%v: got %s, want %s", d, got, want)
		}
	}
}

// TestIsolatedPoint checks that a single sample between gaps is a circle, and others form a line.
func TestIsolatedPoint(t *testing.T) {
	l := line("a", series.Last, 4, 1, 2, 1) // known, unknown, known, known
	got := measure{line: l}.path(1)
	const want = "M146 14m-2 0a2 2 0 1 0 4 0a2 2 0 1 0-4 0M506 14L686 14"
	if got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
