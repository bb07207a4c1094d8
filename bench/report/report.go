// Package report holds the figures of a benchmark, compares them with the goals of
// docs/performance.md, and writes them as a table or JSON. It also has the statistics of many
// values.
//
// It owns numbers and verdicts. It must not measure or know the benchmarks.
package report

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-metal/holdfast/internal/cli/render"
)

// Goal is a bound of docs/performance.md. Exactly one side is set.
type Goal struct {
	AtLeast *float64 `json:"at_least,omitempty"`
	AtMost  *float64 `json:"at_most,omitempty"`
}

// AtLeast returns the goal of v or more.
func AtLeast(v float64) *Goal { return &Goal{AtLeast: &v} }

// AtMost returns the goal of v or less.
func AtMost(v float64) *Goal { return &Goal{AtMost: &v} }

// met reports whether a value meets the goal. NaN does not.
func (g *Goal) met(v float64) bool {
	switch {
	case math.IsNaN(v):
		return false
	case g.AtLeast != nil:
		return v >= *g.AtLeast
	}
	return v <= *g.AtMost
}

func (g *Goal) show(unit string) string {
	if g.AtLeast != nil {
		return "≥ " + show(*g.AtLeast, unit)
	}
	return "≤ " + show(*g.AtMost, unit)
}

// Figure is a measured value.
type Figure struct {
	ID    string  `json:"id"` // stable, for programs
	What  string  `json:"what"`
	Value float64 `json:"value"`
	Unit  string  `json:"unit"`
	Goal  *Goal   `json:"goal,omitempty"` // only if the run had the size of the goal
	Met   *bool   `json:"met,omitempty"`
}

// Report is the result of a run.
type Report struct {
	Benchmark string    `json:"benchmark"`
	Version   string    `json:"version"`
	System    string    `json:"system"`
	Began     time.Time `json:"began"`
	Seconds   float64   `json:"seconds"`
	Figures   []Figure  `json:"figures"`
	Pairs     []Pair    `json:"pairs,omitempty"`  // of a comparison of two builds
	Scales    []Scale   `json:"scales,omitempty"` // of clusters of different sizes
	Notes     []string  `json:"notes,omitempty"`  // omissions and their reasons
}

// New returns an empty report.
func New(benchmark, version string, now time.Time) *Report {
	return &Report{Benchmark: benchmark, Version: version, Began: now.UTC(), Figures: []Figure{},
		System: fmt.Sprintf("%s/%s, %d CPUs, %s", runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), runtime.Version())}
}

// Add adds a figure. The goal may be nil.
func (r *Report) Add(id, what string, value float64, unit string, g *Goal) {
	f := Figure{ID: id, What: what, Value: value, Unit: unit, Goal: g}
	if g != nil {
		met := g.met(value)
		f.Met = &met
	}
	if math.IsNaN(value) || math.IsInf(value, 0) { // JSON has no such numbers
		f.Value = 0
		r.Note("%s could not be measured", what)
	}
	r.Figures = append(r.Figures, f)
}

// Note adds a note, such as an omission and its reason.
func (r *Report) Note(format string, args ...any) {
	r.Notes = append(r.Notes, fmt.Sprintf(format, args...))
}

// missed returns the missed goals.
func (r *Report) missed() []string {
	var all []string
	for _, f := range r.Figures {
		if f.Met != nil && !*f.Met {
			all = append(all, fmt.Sprintf("%s: %s, want %s", f.What, show(f.Value, f.Unit), f.Goal.show(f.Unit)))
		}
	}
	return all
}

// Err returns an error if goals were missed.
func (r *Report) Err() error {
	if all := r.missed(); len(all) > 0 {
		return fmt.Errorf("%d goals were missed: %s", len(all), strings.Join(all, "; "))
	}
	return nil
}

// WriteJSON writes the report as JSON.
func (r *Report) WriteJSON(w io.Writer) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(r)
}

// WriteTable writes the report as a table. GoalsOnly omits figures without a goal.
func (r *Report) WriteTable(w io.Writer, goalsOnly bool) error {
	t := render.NewTable("WHAT", "MEASURED", "GOAL", "VERDICT")
	for _, f := range r.Figures {
		wanted, met := "", render.T("", render.Plain)
		if f.Goal != nil {
			wanted, met = f.Goal.show(f.Unit), render.T("met", render.Green)
			if !*f.Met {
				met = render.T("MISSED", render.Red)
			}
		} else if goalsOnly {
			continue
		}
		t.Row(render.T(f.What, render.Plain), render.T(show(f.Value, f.Unit), render.Plain),
			render.T(wanted, render.Plain), met)
	}
	head := fmt.Sprintf("holdfast-bench %s, version %s, %s, %.0f s\n\n", r.Benchmark, r.Version, r.System, r.Seconds)
	table := ""
	if t.Len() > 0 || len(r.Pairs)+len(r.Scales) == 0 {
		table = t.Format(false, true)
	}
	if _, err := io.WriteString(w, head+table); err != nil {
		return err
	}
	if err := errors.Join(r.writePairs(w), r.writeScales(w)); err != nil {
		return err
	}
	for _, n := range r.Notes {
		if _, err := fmt.Fprintf(w, "\nNote: %s.", n); err != nil {
			return err
		}
	}
	_, err := io.WriteString(w, "\n")
	return err
}

// show formats a value with its significant digits.
func show(v float64, unit string) string {
	var text string
	switch a := math.Abs(v); {
	case a >= 1000:
		text = Thousands(int64(math.Round(v)))
	case a >= 100 || v == math.Trunc(v):
		text = strconv.FormatFloat(v, 'f', 0, 64)
	case a >= 10:
		text = strconv.FormatFloat(v, 'f', 1, 64)
	default:
		text = strconv.FormatFloat(v, 'f', 2, 64)
	}
	switch unit {
	case "":
		return text
	case "x", "%":
		return text + unit
	}
	return text + " " + unit
}

// Thousands groups digits: 100,000.
func Thousands(n int64) string {
	s := strconv.FormatInt(n, 10)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
