package fsm_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/fsm/fsmtest"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

func TestBrake(t *testing.T) {
	const fails, works, stops = failed, succeeded, canceled
	repeat := func(n int, o holdfastv1.Attempt_Outcome) []holdfastv1.Attempt_Outcome {
		var all []holdfastv1.Attempt_Outcome
		for range n {
			all = append(all, o)
		}
		return all
	}
	tests := []struct {
		name     string
		kind     string
		ends     []holdfastv1.Attempt_Outcome
		machines int // that they use in turn
		held     bool
	}{
		{"four failures are not enough", "ssh", repeat(4, fails), 4, false},
		{"five are", "ssh", repeat(5, fails), 5, true},
		{"on one machine they are that machine's", "ssh", repeat(9, fails), 1, false},
		{"on four machines too", "ssh", repeat(12, fails), 4, false},
		{"most runs are fine", "ssh", append(repeat(6, works), repeat(5, fails)...), 11, false},
		{"half of them are not", "ssh", append(repeat(5, works), repeat(5, fails)...), 10, true},
		{"what was long ago does not count", "ssh", append(repeat(30, works), repeat(10, fails)...), 40, true},
		{"what was canceled tells nothing", "ssh", append(repeat(20, stops), repeat(4, fails)...), 24, false},
		{"what operators do by hand has no brake", "power", repeat(9, fails), 9, false},
		{"a look neither", "inspect", repeat(9, fails), 9, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := fsmtest.NewPeer()
			plan(t, p, "plan/x", tt.kind)
			for i := range tt.machines {
				register(t, p, fmt.Sprint("m-", i), ready)
			}
			for i, outcome := range tt.ends {
				request := fmt.Sprint("request-", i)
				start(t, p, fmt.Sprint("m-", i%tt.machines), request, "", "plan/x")
				finish(t, p, "run-"+request, outcome)
			}
			got, _ := p.View().Plan("plan/x")
			if (got.GetBrake() != nil) != tt.held {
				t.Fatalf("plan is %v, want held: %v", got, tt.held)
			}
			if n := len(got.GetRecent()); n > 20 {
				t.Errorf("%d outcomes are kept, at most 20 are", n)
			}
			if !tt.held {
				return
			}
			start(t, p, "m-0", "late", "", "plan/x")
			run := getRun(t, p, "run-late")
			held := &holdfastv1.Wait{Kind: holdfastv1.Wait_BRAKE, Subject: "plan/x", Cause: got.GetBrake().GetFailure(),
				Since: run.GetCreatedAt()}
			same(t, "wait", held, run.GetWait())
			if e, err := p.View().RunEvents(p.View().LastRunEvent()-1, 1); err != nil {
				t.Error(err)
			} else {
				held.Sentence = "BRAKE"
				same(t, "wait of the event", held, p.View().Readable(e[0].GetSnapshot(), kindOf).GetWait())
			}
			e := refused(t, p, &internalv1.BeginAttempt{RunId: "run-late", Step: tt.kind, Attempt: 1}, fsm.FailedPrecondition,
				fsm.ReasonPlanHeld)
			if !strings.Contains(e.Message, got.GetBrake().GetFailure()) {
				t.Errorf("the refusal says %q, want what the plan is held for", e.Message)
			}
			do(t, p, &internalv1.ReleasePlan{PlanId: "plan/x"})
			got, _ = p.View().Plan("plan/x")
			if got.GetBrake() != nil || len(got.GetRecent()) != 0 {
				t.Errorf("after the release: %v", got)
			}
			if run := getRun(t, p, "run-late"); run.GetWait().GetKind() != holdfastv1.Wait_QUEUE {
				t.Errorf("after the release a run waits for %v", run.GetWait())
			}
			begin(t, p, "run-late")
		})
	}
}

// The intent of a run and the brake of its plan race: the first one in the log wins. A run
// that has begun continues to its end, under any leader.
func TestBrakeAgainstIntent(t *testing.T) {
	for _, first := range []string{"intent", "brake"} {
		t.Run(first, func(t *testing.T) {
			p := fsmtest.NewPeer()
			plan(t, p, "plan/x", "ssh", "netboot")
			for i := range 6 {
				register(t, p, fmt.Sprint("m-", i), ready)
				start(t, p, fmt.Sprint("m-", i), fmt.Sprint(i), "", "plan/x")
			}
			intent := &internalv1.BeginAttempt{RunId: "run-5", Step: "ssh", Attempt: 1}
			for i := range 5 {
				if i == 4 && first == "intent" {
					do(t, p, intent)
				}
				finish(t, p, fmt.Sprint("run-", i), failed)
			}
			if got, _ := p.View().Plan("plan/x"); got.GetBrake() == nil {
				t.Fatal("the plan is not held")
			}
			if first == "brake" {
				refused(t, p, intent, fsm.FailedPrecondition, fsm.ReasonPlanHeld)
				return
			}
			end(t, p, "run-5", succeeded)
			begin(t, p, "run-5")
		})
	}
}

func TestBrakeWords(t *testing.T) {
	p := fsmtest.NewPeer()
	plan(t, p, "plan/x", "ssh")
	for i := range 5 {
		m := fmt.Sprint("m-", i)
		register(t, p, m, ready)
		start(t, p, m, m, "", "plan/x")
		finish(t, p, "run-"+m, failed)
	}
	got, _ := p.View().Plan("plan/x")
	want := &holdfastv1.PlanBrake{Failure: "StepFailed (transient) at step ssh", Machines: 5, Runs: 5,
		LastError: "no answer from 10.0.0.9"}
	if diff := cmp.Diff(want, got.GetBrake(), protocmp.Transform(),
		protocmp.IgnoreFields(&holdfastv1.PlanBrake{}, "since")); diff != "" {
		t.Errorf("brake (-want +got):\n%s", diff)
	}
	if got.GetBrake().GetSince() == nil {
		t.Error("since when it is held is not on record")
	}
}
