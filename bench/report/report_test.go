package report

import (
	"bytes"
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func sample() *Report {
	r := New("keepalive", "v1", time.Date(2026, 11, 21, 16, 0, 0, 0, time.UTC))
	r.System, r.Seconds = "linux/amd64, 2 CPUs", 61.4
	r.Add("a", "us : them", 0.8149, "x", AtLeast(0.75))
	r.Add("b", "entries", 1.5, "/s", AtMost(1))
	r.Add("c", "keepalives", 12345.6, "/s", nil)
	r.Note("there is no redis-server")
	return r
}

func TestTable(t *testing.T) {
	for _, tt := range []struct {
		name  string
		goals bool
		want  string
	}{
		{"all", false, `holdfast-bench keepalive, version v1, linux/amd64, 2 CPUs, 61 s

WHAT         MEASURED    GOAL      VERDICT
us : them    0.81x       ≥ 0.75x   met
entries      1.50 /s     ≤ 1 /s    MISSED
keepalives   12,346 /s   -         -

Note: there is no redis-server.
`},
		{"goals", true, `holdfast-bench keepalive, version v1, linux/amd64, 2 CPUs, 61 s

WHAT        MEASURED   GOAL      VERDICT
us : them   0.81x      ≥ 0.75x   met
entries     1.50 /s    ≤ 1 /s    MISSED

Note: there is no redis-server.
`},
	} {
		var out strings.Builder
		if err := sample().WriteTable(&out, tt.goals); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(tt.want, out.String()); diff != "" {
			t.Errorf("%s: -want +got\n%s", tt.name, diff)
		}
	}
}

func TestMissedGoals(t *testing.T) {
	for _, tt := range []struct {
		name  string
		value float64
		goal  *Goal
		want  bool
	}{
		{"reached", 1, AtLeast(1), true},
		{"too little", 0.99, AtLeast(1), false},
		{"in bounds", 1, AtMost(1), true},
		{"too much", 1.01, AtMost(1), false},
		{"not measured", math.NaN(), AtMost(1), false},
	} {
		r := New("x", "v", time.Now())
		r.Add("id", tt.name, tt.value, "", tt.goal)
		if got := r.Err() == nil; got != tt.want {
			t.Errorf("%s: got %v (%v), want %v", tt.name, got, r.Err(), tt.want)
		}
	}
	if err := New("x", "v", time.Now()).Err(); err != nil {
		t.Errorf("no goals: got %v", err)
	}
	if got, want := sample().Err().Error(), "1 goals were missed: entries: 1.50 /s, want ≤ 1 /s"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestJSON checks that the JSON has every figure, also those that are not numbers.
func TestJSON(t *testing.T) {
	r := sample()
	r.Add("d", "nothing", math.NaN(), "ms", nil)
	var out bytes.Buffer
	if err := r.WriteJSON(&out); err != nil {
		t.Fatal(err)
	}
	var got Report
	if err := json.Unmarshal(out.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(r, &got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	if len(got.Figures) != 4 || got.Figures[1].Met == nil || *got.Figures[1].Met || len(got.Notes) != 2 {
		t.Errorf("got %+v", got)
	}
}

func TestShow(t *testing.T) {
	for _, tt := range []struct {
		value float64
		unit  string
		want  string
	}{
		{0.8149, "x", "0.81x"}, {7, "x", "7x"}, {12.345, "%", "12.3%"}, {123.4, "ms", "123 ms"}, {1234567.8, "/s",
			"1,234,568 /s"},
		{0, "", "0"}, {100_000, "", "100,000"}, {-1500, "", "-1,500"}, {999.7, "", "1000"},
	} {
		if got := show(tt.value, tt.unit); got != tt.want {
			t.Errorf("%v %s: got %q, want %q", tt.value, tt.unit, got, tt.want)
		}
	}
}
