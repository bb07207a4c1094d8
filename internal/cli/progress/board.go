package progress

import (
	"slices"
	"time"

	"github.com/holdfast-metal/holdfast/client"
	"github.com/holdfast-metal/holdfast/internal/cli/render"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// Board holds the watched runs in the order of their arrival. Ended runs leave it: a few leave
// their lines behind, many are counted.
type Board struct {
	steps bool // show each run with its steps
	order []string
	runs  map[string]*holdfastv1.Run
	fleet fleet
}

// NewBoard returns an empty board. If steps is set, it shows each run with all of its steps.
func NewBoard(steps bool) *Board {
	return &Board{steps: steps, runs: map[string]*holdfastv1.Run{}, fleet: newFleet()}
}

// Add sets a run's new state. If the run has ended, it returns the lines to leave behind.
func (b *Board) Add(r *holdfastv1.Run, now time.Time) []render.Line {
	id := r.GetRunId()
	_, known := b.runs[id]
	if client.Finished(r) {
		delete(b.runs, id)
		if i := slices.Index(b.order, id); i >= 0 {
			b.order = slices.Delete(b.order, i, i+1)
		}
		if b.steps {
			return One(r, now)
		}
		if !b.fleet.add(r, now) || b.many() {
			return nil
		}
		return []render.Line{Short(r, now)}
	}
	if !known {
		b.order = append(b.order, id)
	}
	b.runs[id] = r
	return nil
}

// many reports whether the runs are shown as a fleet: first counts and kinds of failures, then
// the active runs, the slowest first.
func (b *Board) many() bool { return !b.steps && len(b.order)+len(b.fleet.ended) > few }

// Lines returns the lines of the runs that have not ended.
func (b *Board) Lines(now time.Time) []render.Line {
	var lines []render.Line
	if b.many() {
		active := make([]*holdfastv1.Run, len(b.order))
		for i, id := range b.order {
			active[i] = b.runs[id]
		}
		lines = b.fleet.lines(active)
		for _, r := range slowest(active) {
			lines = append(lines, Short(r, now))
		}
		return lines
	}
	for _, id := range b.order {
		if b.steps {
			lines = append(lines, One(b.runs[id], now)...)
			continue
		}
		lines = append(lines, Short(b.runs[id], now))
	}
	return lines
}
