package progress

import (
	"time"

	"github.com/holdfast-metal/holdfast/client"
	"github.com/holdfast-metal/holdfast/cmd/holdfast/cli/render"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// Board keeps the runs that are being watched, in the order they came. Those that have ended leave it.
type Board struct {
	steps bool // show each run with its steps
	order []string
	runs  map[string]*holdfastv1.Run
}

// NewBoard makes an empty board. With steps it shows each run with all of its steps.
func NewBoard(steps bool) *Board {
	return &Board{steps: steps, runs: map[string]*holdfastv1.Run{}}
}

// Add takes a run's new state. When the run has ended it returns the lines to leave behind for it.
func (b *Board) Add(r *holdfastv1.Run, now time.Time) []render.Line {
	id := r.GetRunId()
	_, known := b.runs[id]
	if client.Finished(r) {
		delete(b.runs, id)
		for i, o := range b.order {
			if o == id {
				b.order = append(b.order[:i:i], b.order[i+1:]...)
				break
			}
		}
		if b.steps {
			return One(r, now)
		}
		return []render.Line{Short(r, now)}
	}
	if !known {
		b.order = append(b.order, id)
	}
	b.runs[id] = r
	return nil
}

// Lines are those of the runs that have not ended.
func (b *Board) Lines(now time.Time) []render.Line {
	var lines []render.Line
	for _, id := range b.order {
		if b.steps {
			lines = append(lines, One(b.runs[id], now)...)
			continue
		}
		lines = append(lines, Short(b.runs[id], now))
	}
	return lines
}
