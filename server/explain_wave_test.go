package server

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
	"github.com/holdfast-metal/holdfast/server/internal/nodetest"
)

// TestExplainWave checks the sentences about a machine of a wave, in the order of its states.
func TestExplainWave(t *testing.T) {
	n := nodetest.New()
	_, c := serve(t, n, Config{})
	n.Do(t, &internalv1.CreatePlan{Plan: nodetest.OnePlan("one")})
	ids := []string{"m-1", "m-2", "m-3"}
	for _, id := range ids {
		n.Machine(t, id)
	}
	n.Do(t, &internalv1.StartWave{MachineIds: ids, Wave: &holdfastv1.Wave{WaveId: "w-1", PlanId: "one", MaxFailures: 1}})
	advance := func(machine, refusal string) {
		n.Do(t, &internalv1.AdvanceWave{WaveId: "w-1", Refusal: refusal, Start: &internalv1.StartRun{RunId: "run-" + machine,
			MachineId: machine, DefaultTimeoutSeconds: 60}})
	}
	const history, wave = "holdfast machine history m-1", "holdfast wave get w-1"
	for _, tt := range []struct {
		name, machine string
		do            func()
		want          []string // summary, wait, and some suggestions
	}{
		{"waiting", "m-1", func() {}, []string{"idle; waits for its turn in wave w-1", "its turn in wave w-1", wave}},
		{"active", "m-1", func() { advance("m-1", ""); n.Begin(t, "run-m-1", 1) },
			[]string{"one, waits for the ssh step; the run is part of wave w-1", "the ssh step", wave}},
		{"succeeded", "m-1", func() { n.End(t, "run-m-1", 1, holdfastv1.Attempt_SUCCEEDED) },
			[]string{"idle", "", history}},
		{"refused", "m-2", func() { advance("m-2", "no BMC") },
			[]string{"idle; wave w-1 could not start a run: no BMC", "", wave}},
		{"a run of another", "m-3", func() { n.Start(t, "m-3", "run-o", "one"); n.Begin(t, "run-o", 1) },
			[]string{"one, waits for the ssh step; waits for its turn in wave w-1", "the ssh step", wave}},
		{"ended", "m-3", func() {
			n.End(t, "run-o", 1, holdfastv1.Attempt_SUCCEEDED)
			n.Do(t, &internalv1.CancelWave{WaveId: "w-1"})
		}, []string{"idle", "", "holdfast machine history m-3"}},
	} {
		tt.do()
		e, err := c.ExplainMachine(testCtx(t), &holdfastv1.ExplainMachineRequest{MachineId: tt.machine})
		if err != nil {
			t.Fatal(err)
		}
		s := e.GetSuggestions()
		if diff := cmp.Diff(tt.want, []string{e.GetSummary(), e.GetWait().GetSentence(), s[len(s)-1]}); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
		if e.GetWait() != nil && e.GetWait().GetSince() == nil {
			t.Errorf("%s: it does not say since when", tt.name)
		}
	}
}
