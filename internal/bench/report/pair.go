package report

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"

	"github.com/holdfast-metal/holdfast/internal/cli/render"
)

// Pair is a figure of two builds that were measured in turn: a value each for every round.
type Pair struct {
	Bench, What, Unit string
	Ref, This         []float64
}

// summary is a pair as programs read it.
type summary struct {
	Bench  string  `json:"bench"`
	What   string  `json:"what"`
	Unit   string  `json:"unit"`
	Ref    float64 `json:"ref"`   // median
	This   float64 `json:"this"`  // median
	Ratio  float64 `json:"ratio"` // this : ref, the median of those of the rounds
	Min    float64 `json:"min"`   // of those
	Max    float64 `json:"max"`
	Rounds int     `json:"rounds"`
	// OneSide means that the ratios of all rounds, at least five, are above 1, or all below: with no
	// difference between the builds that happens once in 16 at five rounds, once in 64 at seven.
	OneSide bool `json:"one_side"`
}

// minOneSide is the number of rounds that can say that builds differ.
const minOneSide = 5

// MarshalJSON writes the summary.
func (p Pair) MarshalJSON() ([]byte, error) { return json.Marshal(p.summary()) }

func (p Pair) summary() summary {
	s := summary{Bench: p.Bench, What: p.What, Unit: p.Unit, Ref: finite(Median(p.Ref)), This: finite(Median(p.This))}
	var ratios []float64
	for i := range min(len(p.Ref), len(p.This)) {
		switch {
		case p.Ref[i] > 0:
			ratios = append(ratios, p.This[i]/p.Ref[i])
		case p.This[i] == 0: // nothing of nothing, such as allocations
			ratios = append(ratios, 1)
		}
	}
	if len(ratios) == 0 {
		return s
	}
	s.Rounds, s.Ratio = len(ratios), Median(ratios)
	s.Min, s.Max = slices.Min(ratios), slices.Max(ratios)
	s.OneSide = s.Rounds >= minOneSide && (s.Min > 1 || s.Max < 1)
	return s
}

// finite returns v, or 0 for what JSON cannot hold.
func finite(v float64) float64 {
	if v != v {
		return 0
	}
	return v
}

// Pair adds a figure of two builds.
func (r *Report) Pair(p Pair) { r.Pairs = append(r.Pairs, p) }

// writePairs writes the table of two builds.
func (r *Report) writePairs(w io.Writer) error {
	if len(r.Pairs) == 0 {
		return nil
	}
	t := render.NewTable("BENCH", "FIGURE", "REF", "THIS", "RATIO", "SPREAD", "ROUNDS")
	for _, p := range r.Pairs {
		s := p.summary()
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
