package bench

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-metal/holdfast/internal/cli/render"
)

// goal is a bound of docs/performance.md. Exactly one side is set.
type goal struct {
	AtLeast *float64 `json:"at_least,omitempty"`
	AtMost  *float64 `json:"at_most,omitempty"`
}

func atLeast(v float64) *goal { return &goal{AtLeast: &v} }
func atMost(v float64) *goal  { return &goal{AtMost: &v} }

// met reports whether a value is on the right side. What is no number is not.
func (g *goal) met(v float64) bool {
	switch {
	case math.IsNaN(v):
		return false
	case g.AtLeast != nil:
		return v >= *g.AtLeast
	}
	return v <= *g.AtMost
}

func (g *goal) show(unit string) string {
	if g.AtLeast != nil {
		return "≥ " + show(*g.AtLeast, unit)
	}
	return "≤ " + show(*g.AtMost, unit)
}

// figure is one thing that was measured.
type figure struct {
	ID    string  `json:"id"` // stable, for programs
	What  string  `json:"what"`
	Value float64 `json:"value"`
	Unit  string  `json:"unit"`
	Goal  *goal   `json:"goal,omitempty"` // only where the run was as large as the goal wants it
	Met   *bool   `json:"met,omitempty"`
}

// report is all that a run has found.
type report struct {
	Benchmark string    `json:"benchmark"`
	Version   string    `json:"version"`
	System    string    `json:"system"`
	Began     time.Time `json:"began"`
	Seconds   float64   `json:"seconds"`
	Figures   []figure  `json:"figures"`
	Notes     []string  `json:"notes,omitempty"` // what was left out, and why
}

func newReport(benchmark, version string, now time.Time) *report {
	return &report{Benchmark: benchmark, Version: version, Began: now.UTC(), Figures: []figure{},
		System: fmt.Sprintf("%s/%s, %d CPUs, %s", runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), runtime.Version())}
}

// add notes a figure; a goal may be nil.
func (r *report) add(id, what string, value float64, unit string, g *goal) {
	f := figure{ID: id, What: what, Value: value, Unit: unit, Goal: g}
	if g != nil {
		met := g.met(value)
		f.Met = &met
	}
	if math.IsNaN(value) || math.IsInf(value, 0) { // JSON has no such numbers
		f.Value = 0
		r.note("%s could not be measured", what)
	}
	r.Figures = append(r.Figures, f)
}

func (r *report) note(format string, args ...any) {
	r.Notes = append(r.Notes, fmt.Sprintf(format, args...))
}

// missed lists the goals that were not reached.
func (r *report) missed() []string {
	var all []string
	for _, f := range r.Figures {
		if f.Met != nil && !*f.Met {
			all = append(all, fmt.Sprintf("%s: %s, want %s", f.What, show(f.Value, f.Unit), f.Goal.show(f.Unit)))
		}
	}
	return all
}

// err is an error when goals were missed.
func (r *report) err() error {
	if all := r.missed(); len(all) > 0 {
		return fmt.Errorf("%d goals were missed: %s", len(all), strings.Join(all, "; "))
	}
	return nil
}

// writeJSON writes the report for programs.
func (r *report) writeJSON(w io.Writer) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(r)
}

// writeTable writes the report for people; goalsOnly leaves out what has no goal.
func (r *report) writeTable(w io.Writer, goalsOnly bool) error {
	t := render.NewTable("WHAT", "MEASURED", "GOAL", "VERDICT")
	for _, f := range r.Figures {
		wanted, verdict := "", render.T("", render.Plain)
		if f.Goal != nil {
			wanted, verdict = f.Goal.show(f.Unit), render.T("met", render.Green)
			if !*f.Met {
				verdict = render.T("MISSED", render.Red)
			}
		} else if goalsOnly {
			continue
		}
		t.Row(render.T(f.What, render.Plain), render.T(show(f.Value, f.Unit), render.Plain),
			render.T(wanted, render.Plain), verdict)
	}
	head := fmt.Sprintf("holdfast-bench %s, version %s, %s, %.0f s\n\n", r.Benchmark, r.Version, r.System, r.Seconds)
	if _, err := io.WriteString(w, head+t.Format(false, true)); err != nil {
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

// show writes a value with as many digits as mean something.
func show(v float64, unit string) string {
	var text string
	switch a := math.Abs(v); {
	case a >= 1000:
		text = thousands(int64(math.Round(v)))
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

// thousands groups digits: 100,000.
func thousands(n int64) string {
	s := strconv.FormatInt(n, 10)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
