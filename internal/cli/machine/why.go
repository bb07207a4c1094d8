package machine

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-metal/holdfast/client"
	"github.com/holdfast-metal/holdfast/internal/cli/app"
	"github.com/holdfast-metal/holdfast/internal/cli/kinds"
	"github.com/holdfast-metal/holdfast/internal/cli/output"
	"github.com/holdfast-metal/holdfast/internal/cli/render"
	"github.com/holdfast-metal/holdfast/internal/describe"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

func machineWhy(a *app.App) *cobra.Command {
	var o output.Flags
	cmd := &cobra.Command{
		Use: "why MACHINE", Args: app.Exactly("MACHINE"), ValidArgsFunction: a.Complete(kinds.Machine().Names),
		Short:   "Explain a machine's current state and the next steps",
		Example: "  holdfast machine why m-123",
		RunE: a.Online(func(ctx context.Context, c *client.Client, args []string) error {
			e, err := c.Machines().ExplainMachine(ctx, &holdfastv1.ExplainMachineRequest{MachineId: args[0]})
			if err != nil {
				return app.Failed(err, "explain machine %s", args[0])
			}
			if !o.Table() {
				return output.PrintOne(a, &o,
					output.Kind[*holdfastv1.MachineExplanation]{Name: (*holdfastv1.MachineExplanation).GetMachineId}, e)
			}
			var b strings.Builder
			for _, line := range explanation(e, a.Now()) {
				b.WriteString(line.Format(0, a.Color(a.Out)) + "\n")
			}
			_, err = io.WriteString(a.Painted(), b.String())
			return err
		}),
	}
	o.Register(cmd)
	return cmd
}

// explanation formats the answer as lines: first the sentence, then its parts.
func explanation(e *holdfastv1.MachineExplanation, now time.Time) []render.Line {
	lines := []render.Line{{
		render.T(e.GetMachineId(), render.Bold), app.Plain(" "), render.State(describe.Enum(e.GetEffectiveState())),
		app.Plain(": " + e.GetSummary()),
	}}
	operator := e.GetWait().GetKind() == holdfastv1.Wait_PERSON
	if since := app.Age(now, e.GetWait().GetSince()); since != "" && operator {
		lines[0] = append(lines[0], app.Plain(", "+since))
	}
	add := func(name string, text render.Text) {
		if text.Value != "" {
			lines = append(lines, render.Line{render.T(fmt.Sprintf("  %-13s ", name), render.Faint), text})
		}
	}
	if e.GetRunId() != "" {
		run := e.GetRunId()
		if e.GetStep() != "" {
			run += ", step " + e.GetStep()
		}
		if e.GetAttempt() > 0 {
			run += fmt.Sprintf(", attempt %d", e.GetAttempt())
		}
		add("run", app.Plain(run))
	}
	if e.GetQueuePosition() > 0 {
		add("in the queue", app.Plain(fmt.Sprintf("position %d", e.GetQueuePosition())))
	}
	waiting := describe.Wait(e.GetWait())
	if since := app.At(e.GetWait().GetSince()); waiting != "" && !since.IsZero() {
		waiting += lasting(now, since)
	}
	if !operator { // the summary has it
		add("waiting for", app.Plain(waiting))
	}
	if next := app.At(e.GetNextActionAt()); next.After(now) || e.GetDeadline() == nil { // polls go on until the deadline
		add("next action", app.Plain(due(now, next)))
	}
	add("deadline", app.Plain(due(now, app.At(e.GetDeadline()))))
	add("last error", render.T(e.GetLastError(), render.Red))
	for _, c := range e.GetConditions() {
		name := render.T(fmt.Sprintf("  %-13s ", "condition"), render.Faint)
		lines = append(lines, append(render.Line{name, app.Plain(c.GetType() + " "), kinds.ConditionStatus(c)},
			app.Plain(conditionDetail(c, now))))
	}
	for _, s := range e.GetSuggestions() {
		add("you can", app.Plain(s))
	}
	return lines
}

// conditionDetail returns the reason of a condition, its start and the time of the last
// observation.
func conditionDetail(c *holdfastv1.Condition, now time.Time) string {
	text := ""
	if c.GetReason() != "" {
		text += " (" + c.GetReason() + ")"
	}
	since := c.GetLastTransition()
	if c.GetUnknown() {
		since = c.GetUnknownSince()
	}
	text += lasting(now, app.At(since))
	if ago := app.Age(now, c.GetObservedAt()); ago != "" {
		text += ", observed " + ago
	}
	if c.GetMessage() != "" {
		text += ": " + c.GetMessage()
	}
	return text
}

// lasting returns the duration of a state since its start, such as ", for 4s"; "" if the start is
// unknown.
func lasting(now, since time.Time) string {
	if since.IsZero() {
		return ""
	}
	return ", for " + describe.Age(max(now.Sub(since), 0))
}

// due returns the time until an event that is expected, or by how much it is overdue.
func due(now, t time.Time) string {
	if late := now.Sub(t); !t.IsZero() && late >= time.Second {
		return "overdue by " + describe.Age(late)
	}
	return render.Until(now, t)
}
