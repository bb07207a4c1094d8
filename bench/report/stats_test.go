package report

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func TestQuantile(t *testing.T) {
	hundred := make([]float64, 100)
	for i := range hundred {
		hundred[len(hundred)-1-i] = float64(i + 1) // not sorted
	}
	for _, tt := range []struct {
		name   string
		values []float64
		q      float64
		want   float64
	}{
		{"none", nil, 0.5, math.NaN()},
		{"one", []float64{7}, 0.99, 7},
		{"two, the lower half", []float64{2, 1}, 0.5, 1},
		{"two, more than half", []float64{2, 1}, 0.51, 2},
		{"p50 of 1 to 100", hundred, 0.5, 50},
		{"p99 of 1 to 100", hundred, 0.99, 99},
		{"the least", hundred, 0, 1},
		{"the most", hundred, 1, 100},
	} {
		if got := Quantile(tt.values, tt.q); !cmp.Equal(got, tt.want, cmpopts.EquateNaNs()) {
			t.Errorf("%s: got %v, want %v", tt.name, got, tt.want)
		}
	}
	if hundred[0] != 100 {
		t.Error("Quantile: got the values sorted in place")
	}
}

func TestMean(t *testing.T) {
	for _, tt := range []struct {
		values []float64
		want   float64
	}{{nil, math.NaN()}, {[]float64{3}, 3}, {[]float64{9, 1, 2}, 4}} {
		if got := Mean(tt.values); !cmp.Equal(got, tt.want, cmpopts.EquateNaNs()) {
			t.Errorf("%v: got %v, want %v", tt.values, got, tt.want)
		}
	}
}

func TestMedian(t *testing.T) {
	for _, tt := range []struct {
		values []float64
		want   float64
	}{
		{nil, math.NaN()}, {[]float64{3}, 3}, {[]float64{9, 1, 4}, 4}, {[]float64{4, 1, 9, 2}, 3},
	} {
		if got := Median(tt.values); !cmp.Equal(got, tt.want, cmpopts.EquateNaNs()) {
			t.Errorf("%v: got %v, want %v", tt.values, got, tt.want)
		}
	}
}

// TestRatio checks that a round with a slow machine for both sides has a normal weight.
func TestRatio(t *testing.T) {
	for _, tt := range []struct {
		name   string
		of, to []float64
		want   float64
	}{
		{"the machine slows down", []float64{80, 8, 40}, []float64{100, 10, 50}, 0.8},
		{"outlier", []float64{80, 80, 5}, []float64{100, 100, 100}, 0.8},
		{"missing round", []float64{80}, []float64{100, 10}, 0.8},
		{"nothing to compare with", []float64{80}, []float64{0}, math.NaN()},
		{"no rounds", nil, nil, math.NaN()},
	} {
		if got := Ratio(tt.of, tt.to); !cmp.Equal(got, tt.want, cmpopts.EquateNaNs()) {
			t.Errorf("%s: got %v, want %v", tt.name, got, tt.want)
		}
	}
}
