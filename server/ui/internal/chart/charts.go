package chart

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-metal/holdfast/internal/describe"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/server/ui/history"
	"github.com/holdfast-metal/holdfast/server/ui/history/series"
	"github.com/holdfast-metal/holdfast/server/ui/internal/display"
)

// maxProviders is the number of providers with a line of their own in a chart.
const maxProviders = 6

// The reasons for empty charts.
const (
	noSample = "No sample yet: this peer has just started."
	noLeader = "No sample yet: the leader has not answered since this peer started."
)

// Fleet returns the charts of the machines, of the runs and of the BMCs.
func Fleet(w *history.Window) []Chart {
	return []Chart{machines(w).draw(w), runs(w).draw(w), bmcs(w).draw(w)}
}

// Cluster returns the charts of the leader's load.
func Cluster(w *history.Window) []Chart {
	return []Chart{
		rate("heartbeats", "Heartbeats/s", "heartbeats/s", w.Heartbeats, w).draw(w),
		rate("commands", "Commands/s", "commands/s", w.Commands, w).draw(w),
		commits(w).draw(w),
	}
}

// machines is the number of machines by effective state.
func machines(w *history.Window) plot {
	p := plot{id: "machines", title: "Machines by state", format: count, stacked: true, empty: noSample}
	var total series.Point
	parts := ""
	for _, l := range w.Machines {
		n := holdfastv1.EffectiveState_Value_value[l.Name]
		m := measure{fmt.Sprint("c-", n), display.Label(holdfastv1.EffectiveState_Value(n)), l, count}
		p.measures = append(p.measures, m)
		now := newest(l)
		total = series.Combine(series.Sum, []series.Point{total, now})
		if now.Value > 0 {
			parts += ", " + count(now.Value) + " " + m.name
		}
	}
	p.now = known(total, count)
	p.summary = "now " + p.now + parts
	return p
}

// runs is the number of runs that ended, by outcome.
func runs(w *history.Window) plot {
	p := plot{id: "runs", title: "Ended runs per minute", format: frequency, empty: noSample}
	classes := map[string]string{"SUCCEEDED": "l-good", "FAILED": "l-bad", "CANCELED": "l-warn"}
	var ended, failed []series.Point
	for _, l := range w.Runs {
		name := display.Label(holdfastv1.Run_Phase(holdfastv1.Run_Phase_value[l.Name]))
		p.measures = append(p.measures, measure{classes[l.Name], name, l, count})
		ended = append(ended, l.Points...)
		if l.Name == holdfastv1.Run_FAILED.String() {
			failed = l.Points
		}
	}
	p.now = known(series.Combine(series.Sum, ended), count) + " ended, " +
		known(series.Combine(series.Sum, failed), count) + " failed"
	p.summary = p.now
	return p
}

// bmcs is the number of failed operations on BMCs, by provider: those with the most have a line
// of their own.
func bmcs(w *history.Window) plot {
	p := plot{
		id: "bmcs", title: "BMC errors per minute", format: frequency, leaders: w.Leaders,
		empty: "No sample yet of a provider that calls BMCs.",
	}
	errors := func(l history.Line) float64 { return series.Combine(series.Sum, l.Points).Value }
	all := slices.Clone(w.BMCErrors)
	slices.SortStableFunc(all, func(a, b history.Line) int {
		return cmp.Or(-cmp.Compare(min(len(a.Name), 1), min(len(b.Name), 1)), cmp.Compare(errors(b), errors(a)))
	})
	if len(all) > maxProviders {
		all = append(all[:maxProviders], merge(all[maxProviders:]))
	}
	var total []series.Point
	for i, l := range all {
		total = append(total, l.Points...)
		p.measures = append(p.measures, measure{fmt.Sprint("l-", i+1), cmp.Or(l.Name, "other providers"), l, count})
	}
	p.now = known(series.Combine(series.Sum, total), count)
	p.summary = p.now + " in total"
	return p
}

// merge returns the sum of some lines of counts, without a name.
func merge(all []history.Line) history.Line {
	sum := all[0]
	sum.Name, sum.Points = "", slices.Clone(sum.Points)
	for _, l := range all[1:] {
		for i, p := range l.Points {
			sum.Points[i].Value += p.Value
			sum.Points[i].Periods = max(sum.Points[i].Periods, p.Periods)
		}
	}
	return sum
}

// rate is a number of events a second.
func rate(id, title, name string, l history.Line, w *history.Window) plot {
	now := known(newest(l), frequency)
	return plot{
		id: id, title: title, now: now, summary: "now " + now, format: frequency, leaders: w.Leaders,
		empty:    noLeader,
		measures: []measure{{"p-half", name, l, frequency}},
	}
}

// commits is the commit latency of the leader.
func commits(w *history.Window) plot {
	now := known(newest(w.P50), seconds) + " / " + known(newest(w.P99), seconds)
	return plot{
		id: "commits", title: "Commit latency p50 / p99", now: now, summary: "now " + now,
		format:  func(v float64) string { return strings.Replace(seconds(v), "-", "0", 1) },
		leaders: w.Leaders,
		empty:   "No sample yet of a committed command.",
		measures: []measure{
			{"p-most", "p99", w.P99, seconds},
			{"p-half", "p50", w.P50, seconds},
		},
	}
}

// newest returns the present value of a line. A sample may be some seconds late.
func newest(l history.Line) series.Point {
	return series.Combine(series.Last, l.Points[max(0, len(l.Points)-3):])
}

// known formats the value of a point, if it is known.
func known(p series.Point, format func(float64) string) string {
	if p.Periods == 0 {
		return "-"
	}
	return format(p.Value)
}

// frequency formats a number of events per unit of time, small ones with two digits.
func frequency(v float64) string {
	if v >= 1 {
		return display.Rate(v)
	}
	return strconv.FormatFloat(v, 'g', 2, 64)
}

func count(v float64) string { return describe.Count(int(v + .5)) }

func seconds(v float64) string { return display.InTime(time.Duration(v * float64(time.Second))) }
