package report

import (
	"math"
	"slices"
	"time"
)

// Quantile returns the q-quantile of values (nearest rank), or NaN if there are none.
func Quantile(values []float64, q float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(values))
	rank := int(math.Ceil(q * float64(len(sorted))))
	return sorted[min(max(rank, 1), len(sorted))-1]
}

// Mean returns the arithmetic mean, or NaN without values.
func Mean(values []float64) float64 {
	var sum float64
	for _, v := range values {
		sum += v
	}
	return sum / float64(len(values))
}

// Median returns the median, or NaN if there are no values.
func Median(values []float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

// Ratio returns the median of the ratios of each round: other work on the machine slows down both
// contenders of a round.
func Ratio(of, to []float64) float64 {
	var each []float64
	for i := range min(len(of), len(to)) {
		if to[i] > 0 {
			each = append(each, of[i]/to[i])
		}
	}
	return Median(each)
}

// Millis returns times in milliseconds.
func Millis(times []time.Duration) []float64 {
	ms := make([]float64, len(times))
	for i, t := range times {
		ms[i] = float64(t) / float64(time.Millisecond)
	}
	return ms
}
