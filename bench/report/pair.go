package report

import (
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/holdfast-metal/holdfast/internal/cli/render"
)

// Pair is a figure of two builds that were measured in turn, one value of each per round.
type Pair struct {
	Bench  string  `json:"bench"`
	What   string  `json:"what"`
	Unit   string  `json:"unit"`
	Ref    float64 `json:"ref"`   // median
	This   float64 `json:"this"`  // median
	Ratio  float64 `json:"ratio"` // this : ref, the median of the rounds
	Min    float64 `json:"min"`   // of the rounds
	Max    float64 `json:"max"`
	Rounds int     `json:"rounds"`
	// OneSide means that the ratios of all rounds, at least five, are above 1, or all below: with
	// no difference between the builds that happens once in 16 at five rounds, once in 64 at seven.
	OneSide bool `json:"one_side"`
}

// minOneSide is the minimum number of rounds for OneSide.
const minOneSide = 5

// pairOf returns the pair of the values of each round.
func pairOf(bench, what, unit string, ref, this []float64) Pair {
	p := Pair{Bench: bench, What: what, Unit: unit, Ref: finite(Median(ref)), This: finite(Median(this))}
	var ratios []float64
	for i := range min(len(ref), len(this)) {
		switch {
		case ref[i] > 0:
			ratios = append(ratios, this[i]/ref[i])
		case this[i] == 0: // both are 0, such as allocations
			ratios = append(ratios, 1)
		}
	}
	if len(ratios) == 0 {
		return p
	}
	p.Rounds, p.Ratio = len(ratios), Median(ratios)
	p.Min, p.Max = slices.Min(ratios), slices.Max(ratios)
	p.OneSide = p.Rounds >= minOneSide && (p.Min > 1 || p.Max < 1)
	return p
}

// finite returns v, or 0 if JSON cannot hold v.
func finite(v float64) float64 {
	if math.IsNaN(v) {
		return 0
	}
	return v
}

// Pair adds a figure of two builds, with their values round by round.
func (r *Report) Pair(bench, what, unit string, ref, this []float64) {
	r.Pairs = append(r.Pairs, pairOf(bench, what, unit, ref, this))
}

// writePairs writes the table of two builds.
func (r *Report) writePairs(w io.Writer) error {
	if len(r.Pairs) == 0 {
		return nil
	}
	t := render.NewTable("BENCH", "FIGURE", "REF", "THIS", "RATIO", "SPREAD", "ROUNDS")
	for _, s := range r.Pairs {
		ratio := fmt.Sprintf("%.2fx", s.Ratio)
		if s.OneSide {
			ratio += " *"
		}
		t.Row(s.Bench, s.What, show(s.Ref, s.Unit), show(s.This, s.Unit), ratio,
			fmt.Sprintf("%.2f..%.2f", s.Min, s.Max), s.Rounds)
	}
	_, err := io.WriteString(w, t.Format(false, true)+
		"\n* the ratios of all rounds are on the same side of 1\n")
	return err
}
