package top

import (
	"cmp"
	"strings"
	"time"

	"github.com/holdfast-metal/holdfast/client"
	"github.com/holdfast-metal/holdfast/internal/cli/progress"
	"github.com/holdfast-metal/holdfast/internal/cli/render"
	"github.com/holdfast-metal/holdfast/internal/describe"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// column is a column of a table, with its sort order.
type column[T any] struct {
	name  string
	width int  // 0: as wide as there is room
	wide  bool // left out on a narrow terminal
	cell  func(x T, now time.Time) render.Text
	order func(a, b T) int // nil: it is not sorted by
}

func plain(s string) render.Text { return render.T(s, render.Plain) }

// runColumns are the columns of the runs. The first sortable one is the default order: runs
// that have been at their step for longest may need attention.
func runColumns() []column[*holdfastv1.Run] {
	return []column[*holdfastv1.Run]{
		{"RUN", 16, false, func(r *holdfastv1.Run, _ time.Time) render.Text { return plain(r.GetRunId()) },
			by((*holdfastv1.Run).GetRunId)},
		{"MACHINE", 10, false, func(r *holdfastv1.Run, _ time.Time) render.Text { return plain(r.GetMachineId()) },
			by((*holdfastv1.Run).GetMachineId)},
		{"TYPE", 8, true, func(r *holdfastv1.Run, _ time.Time) render.Text { return plain(r.GetType()) },
			by((*holdfastv1.Run).GetType)},
		{"PHASE", 9, false, func(r *holdfastv1.Run, _ time.Time) render.Text { return render.State(r.GetPhase().String()) },
			by((*holdfastv1.Run).GetPhase)},
		{"DONE", 9, false, func(r *holdfastv1.Run, _ time.Time) render.Text { return plain(bar(r)) }, by(doneShare)},
		{"AGE", 6, true, func(r *holdfastv1.Run, now time.Time) render.Text {
			return plain(progress.Took(now, cmp.Or(r.GetStartedAt(), r.GetCreatedAt()), r.GetFinishedAt()))
		}, func(a, b *holdfastv1.Run) int { return a.GetCreatedAt().AsTime().Compare(b.GetCreatedAt().AsTime()) }},
		{"AT STEP", 8, false, func(r *holdfastv1.Run, now time.Time) render.Text {
			s := progress.Current(r)
			return plain(progress.Took(now, s.GetStartedAt(), s.GetFinishedAt()))
		}, func(a, b *holdfastv1.Run) int { return atStep(a).Compare(atStep(b)) }},
		{"STEP", 0, false, func(r *holdfastv1.Run, now time.Time) render.Text { return plain(doing(r, now)) },
			by((*holdfastv1.Run).GetCurrentStep)},
	}
}

// issueColumns are the columns of the machines that need attention.
func issueColumns() []column[Issue] {
	return []column[Issue]{
		{"MACHINE", 16, false, func(i Issue, _ time.Time) render.Text { return plain(i.Machine) },
			by(func(i Issue) string { return i.Machine })},
		{"URGENCY", 8, false, func(i Issue, _ time.Time) render.Text { return i.Urgency }, func(a, b Issue) int {
			return cmp.Or(cmp.Compare(a.Rank, b.Rank), a.Since.Compare(b.Since))
		}},
		{"SINCE", 9, false, func(i Issue, now time.Time) render.Text { return plain(render.Ago(now, i.Since)) },
			func(a, b Issue) int { return a.Since.Compare(b.Since) }},
		{"STATE", 14, true, func(i Issue, _ time.Time) render.Text { return render.State(i.State.String()) },
			by(func(i Issue) holdfastv1.EffectiveState_Value { return i.State })},
		{"WHERE", 12, true, func(i Issue, _ time.Time) render.Text { return plain(i.Where) },
			by(func(i Issue) string { return i.Where })},
		{"ISSUES", 0, false, func(i Issue, _ time.Time) render.Text { return plain(strings.Join(i.What, ", ")) }, nil},
	}
}

// by returns an order by the result of f.
func by[T any, K cmp.Ordered](f func(T) K) func(a, b T) int {
	return func(a, b T) int { return cmp.Compare(f(a), f(b)) }
}

// atStep returns the time since which a run has been at its step. Runs that have not started
// sort last.
func atStep(r *holdfastv1.Run) time.Time {
	if at := cmp.Or(progress.Current(r).GetStartedAt(), r.GetStartedAt()); at != nil {
		return at.AsTime()
	}
	return r.GetCreatedAt().AsTime().AddDate(100, 0, 0)
}

func doneShare(r *holdfastv1.Run) float64 {
	n := 0
	for _, s := range r.GetSteps() {
		if s.GetState() == holdfastv1.StepStatus_SUCCEEDED {
			n++
		}
	}
	return float64(n) / float64(max(len(r.GetSteps()), 1))
}

// bar shows the number of completed steps: "██░░ 2/4".
func bar(r *holdfastv1.Run) string {
	const cells = 4
	n := int(doneShare(r) * cells)
	return strings.Repeat("█", n) + strings.Repeat("░", cells-n) + " " + describe.Done(r)
}

// doing returns the step of a run and the condition that it waits for, or its outcome.
func doing(r *holdfastv1.Run, now time.Time) string {
	var parts []string
	if s := progress.Current(r); s != nil && !client.Finished(r) {
		name := s.GetName()
		if s.GetRetryCount() > 0 {
			name += " (attempt " + describe.Attempts(s) + ")"
		}
		parts = append(parts, name)
	}
	if why := progress.Why(r, now); why != "" {
		parts = append(parts, why)
	}
	return strings.Join(parts, ": ")
}

// narrow is the width below which columns are omitted to make room for the last one.
const narrow = 100

// line formats cells at the widths of their columns, and cuts longer ones.
func line[T any](columns []column[T], width int, cell func(column[T]) render.Text) render.Line {
	var l render.Line
	for _, c := range columns {
		if c.wide && width < narrow {
			continue
		}
		t := cell(c)
		t.Value = strings.TrimSpace(render.Clean(t.Value))
		if c.width == 0 {
			l = append(l, t)
			continue
		}
		v := []rune(t.Value)
		if len(v) > c.width {
			v = append(v[:c.width-1], '…')
		}
		t.Value = string(v)
		l = append(l, t, plain(strings.Repeat(" ", c.width-len(v)+2)))
	}
	return l
}
