package display

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-metal/holdfast/server/ui/history"
)

// TestHour: an hour of samples in which the leader dies. There is one gap, the new leader
// is marked, the table agrees with the charts, and the result is small enough to be sent
// every 5 seconds.
func TestHour(t *testing.T) {
	now := time.Date(2026, 1, 29, 16, 0, 0, 0, time.UTC)
	var samples []history.Sample
	for at := now.Add(-time.Hour); !at.After(now); at = at.Add(5 * time.Second) {
		s := history.Sample{At: at, Leader: "n1", Leases: 300, Signs: 30, Known: true, Commands: 4,
			Half: 2 * time.Millisecond, Most: 9 * time.Millisecond}
		switch ago := now.Sub(at); {
		case ago < 15*time.Minute:
			s.Leader = "n2"
		case ago < 16*time.Minute:
			s = history.Sample{At: at}
		}
		samples = append(samples, s)
	}
	h := HourOf(samples, now)
	var got []string
	bytes := 0
	for _, c := range h.Curves {
		for _, l := range c.Lines {
			bytes += len(l.D)
			got = append(got, fmt.Sprintf("%s %s: %d parts, now %s, %d marks", c.ID, l.Name, strings.Count(l.D, "M"), c.Now,
				len(c.Marks)))
		}
	}
	want := []string{"signs heartbeats: 2 parts, now 30, 1 marks", "commands commands: 2 parts, now 4, 1 marks",
		"commits p99: 2 parts, now 2 ms / 9 ms, 1 marks", "commits p50: 2 parts, now 2 ms / 9 ms, 1 marks"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("curves (-want +got):\n%s", diff)
	}
	if bytes > 20_000 {
		t.Errorf("got lines of %d bytes", bytes)
	}
	if got, want := h.Curves[2].Label,
		"Commit latency p50 / p99 in the last hour: now 2 ms / 9 ms, maximum 9 ms"; got != want {
		t.Errorf("got label %q, want %q", got, want)
	}
	var rows []string
	for _, r := range h.Rows {
		rows = append(rows, strings.Join([]string{r.From, r.Leaders, r.Heartbeats, r.Commands, r.P50, r.P99}, "; "))
	}
	if diff := cmp.Diff([]string{
		"10 to 0 min ago; n2; 30; 4; 2 ms; 9 ms", "20 to 10 min ago; n1, then n2; 30; 4; 2 ms; 9 ms",
		"30 to 20 min ago; n1; 30; 4; 2 ms; 9 ms",
		"40 to 30 min ago; n1; 30; 4; 2 ms; 9 ms", "50 to 40 min ago; n1; 30; 4; 2 ms; 9 ms",
		"60 to 50 min ago; n1; 30; 4; 2 ms; 9 ms",
	}, rows); diff != "" {
		t.Errorf("rows (-want +got):\n%s", diff)
	}
	if HourOf(nil, now) != nil {
		t.Error("without samples: got a chart")
	}
	if one := HourOf(samples[:1], samples[0].At); len(one.Rows) != 1 || !strings.HasPrefix(one.Curves[0].Lines[0].D, "M") {
		t.Errorf("one sample: got %+v", one)
	}
}

func TestRound(t *testing.T) {
	for v, want := range map[float64]float64{0: 1, .3: .5, 1: 1, 1.1: 2, 4: 5, 7: 10, 100: 100, 101: 200, 2e6: 2e6} {
		if got := round(v); got < want*.999 || got > want*1.001 {
			t.Errorf("round(%v): got %v, want %v", v, got, want)
		}
	}
}
