package report

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestPair(t *testing.T) {
	for _, tt := range []struct {
		name      string
		ref, this []float64
		want      Pair
	}{
		{"all above", []float64{1, 2, 4, 1, 1}, []float64{2, 3, 8, 3, 2},
			Pair{Ref: 1, This: 3, Ratio: 2, Min: 1.5, Max: 3, Rounds: 5, OneSide: true}},
		{"all below", []float64{4, 4, 4, 4, 4}, []float64{2, 2, 2, 2, 3},
			Pair{Ref: 4, This: 2, Ratio: 0.5, Min: 0.5, Max: 0.75, Rounds: 5, OneSide: true}},
		{"one equal", []float64{1, 1, 1, 1, 1}, []float64{2, 2, 2, 2, 1},
			Pair{Ref: 1, This: 2, Ratio: 2, Min: 1, Max: 2, Rounds: 5}},
		{"too few", []float64{1, 1}, []float64{2, 2}, Pair{Ref: 1, This: 2, Ratio: 2, Min: 2, Max: 2, Rounds: 2}},
		{"nothing of nothing", []float64{0, 0}, []float64{0, 0}, Pair{Ratio: 1, Min: 1, Max: 1, Rounds: 2}},
		{"no rounds", nil, nil, Pair{}},
	} {
		if diff := cmp.Diff(tt.want, pairOf("", "", "", tt.ref, tt.this)); diff != "" {
			t.Errorf("%s: -want +got\n%s", tt.name, diff)
		}
	}
}

func TestPairsAreShown(t *testing.T) {
	r := New("compare", "v1", time.Unix(0, 0))
	r.Pair("startrun.64", "rate", "/s", []float64{100, 100, 100, 100, 100}, []float64{200, 210, 190, 200, 200})
	r.Pair("reads", "p99", "ms", []float64{math.NaN()}, nil)
	var text, doc strings.Builder
	if err := r.WriteTable(&text, false); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"BENCH", "startrun.64", "2.00x *", "1.90..2.10", "200 /s"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("the table has no %q:\n%s", want, text.String())
		}
	}
	if strings.Contains(text.String(), "VERDICT") {
		t.Errorf("got an empty table of figures:\n%s", text.String())
	}
	if err := r.WriteJSON(&doc); err != nil {
		t.Fatal(err)
	}
	var got Report
	if err := json.Unmarshal([]byte(doc.String()), &got); err != nil || len(got.Pairs) != 2 ||
		got.Pairs[0].Ratio != 2 || !got.Pairs[0].OneSide {
		t.Errorf("got %+v, %v, want the summary of both", got, err)
	}
}

func TestScalesAreShown(t *testing.T) {
	r := New("scaling", "v1", time.Unix(0, 0))
	r.Scale(Scale{Setup: "3x0.5", Bench: "reads", Rate: 1500, P50: 1.25, P99: 9, CPU: 300, Leader: 99.6, Driver: 40})
	var text strings.Builder
	if err := r.WriteTable(&text, false); err != nil {
		t.Fatal(err)
	}
	want := "3x0.5 reads 1,500 /s 1.25 ms 9 ms 300 µs 100% 0% 40%"
	if got := strings.Join(strings.Fields(text.String()), " "); !strings.Contains(got, want) {
		t.Errorf("got %s, want %s", got, want)
	}
}
