package report

import (
	"fmt"
	"io"

	"github.com/holdfast-metal/holdfast/internal/cli/render"
)

// Scale is a row of the table of clusters of different sizes.
type Scale struct {
	Setup string  `json:"setup"`
	Bench string  `json:"bench"`
	Rate  float64 `json:"rate"`   // operations per second
	P50   float64 `json:"p50_ms"` // of an operation
	P99   float64 `json:"p99_ms"`
	CPU   float64 `json:"cpu_us"` // of all peers, per operation
	// Used processor time, in percent of the share.
	Leader   float64 `json:"leader_pct"`
	Follower float64 `json:"follower_pct"` // mean of all
	Driver   float64 `json:"driver_pct"`
}

// Scale adds a row.
func (r *Report) Scale(s Scale) { r.Scales = append(r.Scales, s) }

// writeScales writes the table.
func (r *Report) writeScales(w io.Writer) error {
	if len(r.Scales) == 0 {
		return nil
	}
	t := render.NewTable("SETUP", "BENCH", "RATE", "P50", "P99", "CPU", "LEADER", "FOLLOWER", "DRIVER")
	pct := func(v float64) string { return fmt.Sprintf("%.0f%%", v) }
	for _, s := range r.Scales {
		t.Row(s.Setup, s.Bench, show(s.Rate, "/s"), show(s.P50, "ms"), show(s.P99, "ms"), show(s.CPU, "µs"), pct(s.Leader),
			pct(s.Follower), pct(s.Driver))
	}
	_, err := io.WriteString(w, t.Format(false, true))
	return err
}
