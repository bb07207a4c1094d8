package display

import (
	"fmt"
	"strings"
	"time"

	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/internal/describe"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// PlanStep is a step, formatted.
type PlanStep struct {
	Number                       int
	Name, Kind, Timeout, Retries string
	Effect                       string // the effect on the machine
	Destroys                     bool   // it destroys data
	Interrupts                   bool   // it interrupts workloads
	Params                       []describe.Fact
}

// PlanSteps formats the steps of a plan, with their effects for the parameters of a run.
func PlanSteps(p *holdfastv1.Plan, params map[string]string) []PlanStep {
	var all []PlanStep
	for i, s := range p.GetSteps() {
		row := PlanStep{Number: i + 1, Name: s.GetName(), Timeout: "default", Retries: "default"}
		if s.GetTimeoutSeconds() > 0 {
			row.Timeout = whole(time.Duration(s.GetTimeoutSeconds()) * time.Second)
		}
		if s.MaxRetries != nil {
			row.Retries = fmt.Sprint(s.GetMaxRetries())
		}
		row.Kind, row.Params = describe.Step(s, " ")
		e := fsm.StepEffect(s, params)
		row.Effect, row.Interrupts, row.Destroys = e.Text, e.Interrupts, e.Destroys
		all = append(all, row)
	}
	return all
}

// whole formats a duration without a smaller unit of zero: 15m, not 15m00s.
func whole(d time.Duration) string {
	text := describe.Duration(d)
	for _, zero := range []string{"m00s", "h00m", "d0h"} {
		if strings.HasSuffix(text, zero) {
			return strings.TrimSuffix(text, zero[1:])
		}
	}
	return text
}
