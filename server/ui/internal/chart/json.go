package chart

import (
	"time"

	"github.com/holdfast-metal/holdfast/server/ui/history"
	"github.com/holdfast-metal/holdfast/server/ui/history/series"
)

// Data is a window as JSON.
type Data struct {
	Range   string       `json:"range"`
	From    time.Time    `json:"from"`
	To      time.Time    `json:"to"`
	Leaders []dataLeader `json:"leaders"`
	Series  []dataSeries `json:"series"`
}

type dataLeader struct {
	At     time.Time `json:"at"`
	Leader string    `json:"leader"`
}

// dataSeries is one line. A value is null if it is unknown.
type dataSeries struct {
	Chart  string     `json:"chart"`
	Name   string     `json:"name"`
	Unit   string     `json:"unit"`
	From   time.Time  `json:"from"`
	Step   float64    `json:"step_seconds"`
	Values []*float64 `json:"values"`
}

// DataOf returns the window as JSON, with the charts of Fleet if fleet is set. Counts are those
// of each step.
func DataOf(w *history.Window, fleet bool) Data {
	d := Data{Range: w.Range.Name, From: w.From.UTC(), To: w.To.UTC(), Leaders: []dataLeader{}}
	for _, l := range w.Leaders {
		d.Leaders = append(d.Leaders, dataLeader{l.At.UTC(), l.ID})
	}
	add := func(chart, unit string, lines ...history.Line) {
		for _, l := range lines {
			d.Series = append(d.Series, dataSeries{
				Chart: chart, Name: l.Name, Unit: unit, From: l.From.UTC(), Step: l.Step.Seconds(), Values: values(l.Points),
			})
		}
	}
	if fleet {
		add("machines", "machines", w.Machines...)
		add("runs", "runs", w.Runs...)
		add("bmcs", "errors", w.BMCErrors...)
	}
	add("load", "1/s", w.Heartbeats, w.Commands)
	add("commits", "s", w.P50, w.P99)
	return d
}

func values(points []series.Point) []*float64 {
	all := make([]*float64, len(points))
	for i := range points {
		if points[i].Periods > 0 {
			all[i] = &points[i].Value
		}
	}
	return all
}
