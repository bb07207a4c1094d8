package server

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
	"github.com/holdfast-metal/holdfast/server/internal/nodetest"
)

func TestExplainMachine(t *testing.T) {
	setPhase := func(p holdfastv1.MachineStatus_Phase) func(*testing.T, *nodetest.Node) {
		return func(t *testing.T, n *nodetest.Node) { n.Do(t, &internalv1.SetMachinePhase{MachineId: "m-1", Phase: p}) }
	}
	for _, tt := range []struct {
		name        string
		story       func(*testing.T, *nodetest.Node)
		summary     string
		waiting     string
		lastError   string
		suggestions []string
	}{
		{
			"idle", func(*testing.T, *nodetest.Node) {}, "idle", "", "",
			[]string{"holdfast machine history m-1"},
		},
		{
			"queued", func(t *testing.T, n *nodetest.Node) { n.Start(t, "m-1", "run-1", "") },
			"one is number 1 in the queue, waits for a free slot", "a free slot", "",
			[]string{"holdfast run logs run-1 -f", "holdfast run cancel run-1"},
		},
		{
			"running", func(t *testing.T, n *nodetest.Node) { n.Start(t, "m-1", "run-1", ""); n.Begin(t, "run-1", 1) },
			"one, waits for the ssh step", "the ssh step", "",
			[]string{"holdfast run logs run-1 -f", "holdfast run cancel run-1"},
		},
		{
			"second attempt", func(t *testing.T, n *nodetest.Node) {
				n.Start(t, "m-1", "run-1", "")
				n.Begin(t, "run-1", 1)
				n.Do(t, &internalv1.EndAttempt{RunId: "run-1", Step: "one", Attempt: 1, Outcome: holdfastv1.Attempt_FAILED,
					Error: "no route to host"})
				n.Begin(t, "run-1", 2)
			}, "one, attempt 2 of 3, waits for the ssh step", "the ssh step", "no route to host",
			[]string{"holdfast run logs run-1 -f", "holdfast run cancel run-1"},
		},
		{
			"being canceled", func(t *testing.T, n *nodetest.Node) {
				n.Start(t, "m-1", "run-1", "")
				n.Begin(t, "run-1", 1)
				n.Do(t, &internalv1.CancelRun{RunId: "run-1"})
			}, "one, is being canceled",
			"the current attempt to stop", "",
			[]string{"holdfast run logs run-1 -f"},
		},
		{
			"failed", func(t *testing.T, n *nodetest.Node) {
				n.Start(t, "m-1", "run-1", "")
				n.Finish(t, "run-1", holdfastv1.Attempt_FAILED)
			},
			"one failed at one: exit status 3", "an operator",
			"exit status 3",
			[]string{"holdfast run logs run-1", "holdfast run retry run-1", "holdfast machine set-phase m-1 READY",
				"holdfast machine history m-1"},
		},
		{
			"canceled before it began", func(t *testing.T, n *nodetest.Node) {
				n.Start(t, "m-1", "run-1", "")
				n.Do(t, &internalv1.CancelRun{RunId: "run-1"})
			},
			"idle", "", "canceled", []string{"holdfast run logs run-1", "holdfast machine history m-1"},
		},
		{
			"canceled", func(t *testing.T, n *nodetest.Node) {
				n.Start(t, "m-1", "run-1", "")
				n.Begin(t, "run-1", 1)
				n.Do(t, &internalv1.CancelRun{RunId: "run-1"})
				n.End(t, "run-1", 1, holdfastv1.Attempt_CANCELED)
			},
			"one was canceled at step one of run-1, waits for an operator", "an operator", "canceled",
			[]string{"holdfast run logs run-1", "holdfast run retry run-1", "holdfast machine set-phase m-1 READY",
				"holdfast machine history m-1"},
		},
		{
			"canceled while it erased", func(t *testing.T, n *nodetest.Node) {
				n.Do(t, &internalv1.CreatePlan{Plan: &holdfastv1.Plan{PlanId: "plan/erase", Steps: []*holdfastv1.Step{{
					Name: "one", Kind: &holdfastv1.Step_Repave{Repave: &holdfastv1.RepaveImage{}}}}}})
				n.Start(t, "m-1", "run-1", "plan/erase")
				n.Begin(t, "run-1", 1)
				n.Do(t, &internalv1.CancelRun{RunId: "run-1"})
				n.End(t, "run-1", 1, holdfastv1.Attempt_CANCELED)
			},
			"erase was canceled at step one of run-1: the disk may be written in part, and no installer has reported, " +
				"waits for an operator", "an operator", "canceled",
			[]string{"holdfast run logs run-1", "holdfast run retry run-1", "holdfast machine history m-1"},
		},
		{
			"maintenance by hand", setPhase(holdfastv1.MachineStatus_MAINTENANCE),
			"waits for an operator", "an operator", "",
			[]string{"holdfast machine set-phase m-1 READY", "holdfast machine history m-1"},
		},
		{
			"rma", setPhase(holdfastv1.MachineStatus_RMA),
			"to be returned, waits for an operator", "an operator", "",
			[]string{"holdfast machine set-phase m-1 READY", "holdfast machine set-phase m-1 RETIRED",
				"holdfast machine history m-1"},
		},
		{
			"retired", setPhase(holdfastv1.MachineStatus_RETIRED),
			"retired, no operation is allowed", "", "",
			[]string{"holdfast machine delete m-1", "holdfast machine history m-1"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			n := nodetest.New()
			_, c := serve(t, n, Config{})
			n.Machine(t, "m-1")
			tt.story(t, n)
			e, err := c.ExplainMachine(testCtx(t), &holdfastv1.ExplainMachineRequest{MachineId: "m-1"})
			if err != nil {
				t.Fatal(err)
			}
			got := []string{e.GetSummary(), e.GetWait().GetSentence(), e.GetLastError(), strings.Join(e.GetSuggestions(), "\n")}
			want := []string{tt.summary, tt.waiting, tt.lastError, strings.Join(tt.suggestions, "\n")}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if (e.GetWait() != nil) != (e.GetWait().GetSince() != nil) ||
				e.GetMachineId() != "m-1" || e.GetEffectiveState() == 0 {
				t.Errorf("got %v", e)
			}
		})
	}
}
