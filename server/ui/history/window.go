package history

import (
	"slices"
	"strings"
	"time"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/server/ui/history/series"
)

// Range is a time span that ends now.
type Range struct {
	Name string // as in the address of a page
	Text string
	Span time.Duration

	levels, sums series.Query
}

// Ranges returns all ranges, the shortest first.
func Ranges() []Range {
	return []Range{
		{"1h", "1 hour", time.Hour, series.Query{Resolution: 0, Group: 1, N: 360},
			series.Query{Resolution: 1, Group: 1, N: 60}},
		{"6h", "6 hours", 6 * time.Hour, series.Query{Resolution: 1, Group: 1, N: 360},
			series.Query{Resolution: 1, Group: 5, N: 72}},
		{"24h", "24 hours", 24 * time.Hour, series.Query{Resolution: 1, Group: 4, N: 360},
			series.Query{Resolution: 2, Group: 1, N: 144}},
		{"14d", "14 days", 14 * 24 * time.Hour, series.Query{Resolution: 2, Group: 6, N: 336},
			series.Query{Resolution: 2, Group: 6, N: 336}},
	}
}

// RangeOf returns the range with a name, or the shortest one.
func RangeOf(name string) Range {
	all := Ranges()
	if i := slices.IndexFunc(all, func(r Range) bool { return r.Name == name }); i >= 0 {
		return all[i]
	}
	return all[0]
}

// Line is a part of one series.
type Line struct {
	Name   string // of the state, phase or provider ("": all other ones), or of the measurement
	Kind   series.Kind
	From   time.Time
	Step   time.Duration // length of a point
	Every  time.Duration // length of a period: a point has Step/Every
	Points []series.Point
}

// PerMinute returns the rate of a point of counts, relative to the periods that are known.
func (l Line) PerMinute(p series.Point) float64 {
	return p.Value / (float64(p.Periods) * l.Every.Minutes())
}

// Window is the part of all series within a range.
type Window struct {
	Range      Range
	From, To   time.Time
	Leaders    []Leader // the leader at the begin, if known, and each change since
	Machines   []Line   // by effective state
	Runs       []Line   // that ended, by phase
	Heartbeats Line     // a second
	Commands   Line     // a second
	P50, P99   Line     // commit latency in seconds: the average and the highest of a point
	BMCErrors  []Line   // by provider
}

// Window returns the samples of a range.
func (h *History) Window(r Range) *Window {
	to := h.now()
	w := &Window{Range: r, From: to.Add(-r.Span), To: to}
	line := func(kind series.Kind, name string) Line { return lineOf(h.fixed, kind, name, r.levels, to) }
	sum := func(s *series.Store, name string) Line { return lineOf(s, series.Sum, name, r.sums, to) }
	for s := holdfastv1.EffectiveState_FACTORY_READY; int(s) < len(holdfastv1.EffectiveState_Value_name); s++ {
		w.Machines = append(w.Machines, line(series.Last, machines+s.String()))
	}
	for _, p := range endPhases() {
		w.Runs = append(w.Runs, sum(h.fixed, runs+p.String()))
	}
	w.Heartbeats, w.Commands = line(series.Mean, heartbeats), line(series.Mean, commands)
	w.P50, w.P99 = line(series.Mean, commitP50), line(series.Max, commitP99)
	for _, name := range h.bmcs.Names() {
		w.BMCErrors = append(w.BMCErrors, sum(h.bmcs, name))
	}
	if slices.Contains(h.fixed.Names(), bmcOthers) {
		others := sum(h.fixed, bmcOthers)
		others.Name = ""
		w.BMCErrors = append(w.BMCErrors, others)
	}
	w.Leaders = h.leadersSince(w.From)
	return w
}

// leadersSince returns the leader at a time, and each change since.
func (h *History) leadersSince(from time.Time) []Leader {
	h.mu.Lock()
	defer h.mu.Unlock()
	first := 0
	for i, l := range h.leaders {
		if !l.At.After(from) {
			first = i
		}
	}
	return slices.Clone(h.leaders[first:])
}

func lineOf(s *series.Store, kind series.Kind, name string, q series.Query, to time.Time) Line {
	q.To = to
	step := s.Step(q)
	_, short, ok := strings.Cut(name, ".")
	if !ok {
		short = name
	}
	return Line{
		Name:   short,
		Kind:   kind,
		From:   s.From(q),
		Step:   step,
		Every:  step / time.Duration(q.Group),
		Points: s.Read(name, q),
	}
}
