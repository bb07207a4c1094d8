package progress

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/holdfast-metal/holdfast/client"
	"github.com/holdfast-metal/holdfast/internal/cli/render"
	"github.com/holdfast-metal/holdfast/internal/describe"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

func text(s string) render.Text { return render.T(s, render.Plain) }

// One shows a run with all of its steps.
func One(r *holdfastv1.Run, now time.Time) []render.Line {
	lines := []render.Line{head(r, now)}
	name := 0
	for _, s := range r.GetSteps() {
		name = max(name, len([]rune(s.GetName())))
	}
	for _, s := range r.GetSteps() {
		mark, state := "·", render.State(s.GetState().String())
		switch s.GetState() {
		case holdfastv1.StepStatus_RUNNING:
			mark = "▸"
		case holdfastv1.StepStatus_SUCCEEDED:
			mark = "✓"
		case holdfastv1.StepStatus_FAILED:
			mark = "✗"
		}
		line := render.Line{
			text("  "), render.T(mark, state.Style), text(" " + pad(s.GetName(), name) + "  "),
			state,
		}
		var rest render.Line
		if s.GetRetryCount() > 0 || len(s.GetAttempts()) > 1 {
			rest = append(rest, text("  attempt "+describe.Attempts(s)))
		}
		if why := stepWhy(r, s, now); why != "" {
			rest = append(rest, render.T("  "+why, render.Faint))
		}
		took := Took(now, s.GetStartedAt(), s.GetFinishedAt())
		if len(rest) > 0 {
			took = pad(took, 6)
		}
		if took != "" {
			line = append(line, text(strings.Repeat(" ", max(9-len(state.Value), 0))+"  "+took))
		}
		lines = append(lines, append(line, rest...))
	}
	return lines
}

// head returns the line that names the run.
func head(r *holdfastv1.Run, now time.Time) render.Line {
	line := render.Line{
		render.T(r.GetRunId(), render.Bold), text("  " + r.GetMachineId() + "  " + cmp.Or(r.GetType(), r.GetPlanId()) + "  "),
		render.State(r.GetPhase().String()), text("  " + describe.Done(r)),
	}
	if took := Took(now, r.GetStartedAt(), r.GetFinishedAt()); took != "" {
		line = append(line, text("  "+took))
	}
	if why := Why(r, now); why != "" && (client.Finished(r) || Current(r) == nil) {
		line = append(line, render.T("  "+why, render.Faint))
	}
	return line
}

// stepWhy returns the text of a step: the condition that the current one waits for, or the
// message of another.
func stepWhy(r *holdfastv1.Run, s *holdfastv1.StepStatus, now time.Time) string {
	if s.GetState() == holdfastv1.StepStatus_RUNNING && s.GetName() == r.GetCurrentStep() {
		why := Why(r, now)
		if n := len(s.GetAttempts()); why == "" && n > 0 {
			why = s.GetAttempts()[n-1].GetError()
		}
		return cmp.Or(why, s.GetMessage())
	}
	return s.GetMessage()
}

// Short shows a run on one line, for a block of many.
func Short(r *holdfastv1.Run, now time.Time) render.Line {
	state := render.State(r.GetPhase().String())
	line := render.Line{
		render.T(pad(r.GetRunId(), 12), render.Bold), text("  " + pad(r.GetMachineId(), 12) + "  " + pad(cmp.Or(r.GetType(),
			r.GetPlanId()), 8) + "  "),
		render.T(pad(state.Value, 9), state.Style), text("  " + pad(describe.Done(r),
			5) + "  " + pad(Took(now, r.GetStartedAt(), r.GetFinishedAt()), 6)),
	}
	parts := []string{}
	if s := Current(r); s != nil && !client.Finished(r) {
		parts = append(parts, s.GetName())
		if s.GetRetryCount() > 0 {
			parts = append(parts, "attempt "+describe.Attempts(s))
		}
	}
	if why := Why(r, now); why != "" {
		parts = append(parts, why)
	}
	return append(line, render.T("  "+strings.Join(parts, ": "), render.Faint))
}

// Event formats one transition as a line for a pipe or a log.
func Event(e *holdfastv1.RunEvent) string {
	r := e.GetSnapshot()
	ts := ""
	if e.GetTs() != nil {
		ts = e.GetTs().AsTime().UTC().Format(time.RFC3339)
	}
	line := fmt.Sprintf("%s %s %s %s %s %s", cmp.Or(ts, "-"), r.GetRunId(), r.GetMachineId(),
		cmp.Or(r.GetType(), r.GetPlanId(), "-"),
		r.GetPhase(), describe.Done(r))
	if s := Current(r); s != nil {
		line += fmt.Sprintf(" %s %s", s.GetName(), s.GetState())
		if s.GetRetryCount() > 0 {
			line += " attempt " + describe.Attempts(s)
		}
	}
	if why := cmp.Or(e.GetMessage(), Why(r, at(e))); why != "" {
		line += ": " + why
	}
	return render.Clean(line)
}

func at(e *holdfastv1.RunEvent) time.Time {
	if e.GetTs() == nil {
		return time.Time{}
	}
	return e.GetTs().AsTime()
}

func pad(s string, n int) string {
	return s + strings.Repeat(" ", max(n-len([]rune(s)), 0))
}
