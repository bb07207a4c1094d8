package fsm_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/fsm/fsmtest"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// wantCanceled checks a canceled run, and the state of its machine.
func wantCanceled(t *testing.T, p *fsmtest.Peer, run, message string) {
	t.Helper()
	r := getRun(t, p, run)
	if r.GetPhase() != holdfastv1.Run_CANCELED || r.GetFinishedAt() == nil || r.GetWaitingFor() != "" ||
		r.GetNextActionAt() != nil {
		t.Errorf("run: got %v, want CANCELED", r)
	}
	if r.GetError().GetReason() != "Canceled" || r.GetError().GetMessage() != message {
		t.Errorf("error: got %v, want Canceled with %q", r.GetError(), message)
	}
	for _, s := range r.GetSteps() {
		if s.GetState() == holdfastv1.StepStatus_RUNNING {
			t.Errorf("step %s is still running", s.GetName())
		}
		for _, a := range s.GetAttempts() {
			if fsm.Open(a) {
				t.Errorf("attempt %d of step %s is still open", a.GetNumber(), s.GetName())
			}
		}
	}
	m := getMachine(t, p, r.GetMachineId())
	c := cond(m, "NeedsIntervention")
	if m.GetStatus().GetPhase() != maintenance || m.GetStatus().GetActiveRunId() != "" || c.GetStatus() ||
		c.GetReason() != "Canceled" {
		t.Errorf("machine: got %v, want MAINTENANCE, free, reason Canceled", m.GetStatus())
	}
}

func TestCancel(t *testing.T) {
	cancel := func(t *testing.T, p *fsmtest.Peer, run string) *holdfastv1.Run {
		return do(t, p, &internalv1.CancelRun{RunId: run, Reason: "wrong machine"}).(*holdfastv1.Run)
	}
	const message = "canceled: wrong machine"
	t.Run("pending", func(t *testing.T) {
		p, run := running(t)
		if r := cancel(t, p, run); !fsm.Ended(r) || r.GetCancelRequestedAt() == nil || r.GetStartedAt() != nil {
			t.Errorf("got %v, want the run to end at once", r)
		}
		wantCanceled(t, p, run, message)
	})
	t.Run("running, ended by the executor", func(t *testing.T) {
		p, run := running(t)
		begin(t, p, run)
		r := cancel(t, p, run)
		if r.GetPhase() != holdfastv1.Run_RUNNING || r.GetCancelRequestedAt() == nil ||
			r.GetCancelReason() != "wrong machine" || r.GetNextActionAt().AsTime() != p.Now {
			t.Errorf("got %v, want a request that the executor acts on now", r)
		}
		if m := getMachine(t, p, "m").GetStatus(); m.GetPhase() != provisioning || m.GetActiveRunId() != run {
			t.Errorf("machine: got %v, want it to wait for the executor", m)
		}
		// Progress is still recorded, and a second cancel changes nothing.
		do(t, p, &internalv1.NoteProgress{RunId: run, Step: "ssh", Attempt: 1, WaitingFor: "the script to stop"})
		before := dump(t, p)
		if r := do(t, p, &internalv1.CancelRun{RunId: run,
			Reason: "another"}).(*holdfastv1.Run); r.GetCancelReason() != "wrong machine" {
			t.Errorf("canceled twice: got reason %q, want the first", r.GetCancelReason())
		}
		if diff := before.Diff(dump(t, p)); diff != "" {
			t.Errorf("canceled twice:\n%s", diff)
		}
		r = end(t, p, run, canceled)
		if s := r.GetSteps()[0]; s.GetState() != holdfastv1.StepStatus_FAILED || s.GetMessage() != message {
			t.Errorf("step: got %v, want FAILED with %q", s, message)
		}
		wantCanceled(t, p, run, message)
	})
	t.Run("between steps", func(t *testing.T) {
		p, run := running(t)
		begin(t, p, run)
		end(t, p, run, succeeded)
		cancel(t, p, run)
		refused(t, p, &internalv1.BeginAttempt{RunId: run, Step: "reboot", Attempt: 1}, fsm.FailedPrecondition,
			fsm.ReasonCancelRequested)
		do(t, p, &internalv1.AbortRun{RunId: run, Phase: holdfastv1.Run_CANCELED})
		wantCanceled(t, p, run, message)
		if s := getRun(t, p, run).GetSteps(); s[0].GetState() != holdfastv1.StepStatus_SUCCEEDED ||
			s[1].GetState() != holdfastv1.StepStatus_WAITING {
			t.Errorf("steps: got %v, want what was done to stay done", s)
		}
	})
	t.Run("between retries", func(t *testing.T) {
		p, run := running(t)
		begin(t, p, run)
		end(t, p, run, failed)
		cancel(t, p, run)
		refused(t, p, &internalv1.BeginAttempt{RunId: run, Step: "ssh", Attempt: 2}, fsm.FailedPrecondition,
			fsm.ReasonCancelRequested)
		r := do(t, p, &internalv1.AbortRun{RunId: run, Phase: holdfastv1.Run_CANCELED}).(*holdfastv1.Run)
		if s := r.GetSteps()[0]; s.GetState() != holdfastv1.StepStatus_FAILED || s.GetAttempts()[0].GetOutcome() != failed {
			t.Errorf("step: got %v, want FAILED with its attempt as it was", s)
		}
		wantCanceled(t, p, run, message)
	})
	t.Run("open attempt of a leader that is gone", func(t *testing.T) {
		p, run := running(t)
		begin(t, p, run)
		cancel(t, p, run)
		p.Lead(4)
		refused(t, p, &internalv1.BeginAttempt{RunId: run, Step: "ssh", Attempt: 2}, fsm.Aborted, fsm.ReasonAttemptMismatch)
		// The next leader adopts the attempt before it kills the command on the host. This
		// must be recorded.
		do(t, p, &internalv1.BeginAttempt{RunId: run, Step: "ssh", Attempt: 1})
		r := do(t, p, &internalv1.AbortRun{RunId: run, Phase: holdfastv1.Run_CANCELED,
			Error: &holdfastv1.RunError{Reason: "Canceled", Message: "gone"}}).(*holdfastv1.Run)
		a := r.GetSteps()[0].GetAttempts()[0]
		if diff := cmp.Diff([]uint64{1, 4}, a.GetEpochs()); diff != "" {
			t.Errorf("epochs (-want +got):\n%s", diff)
		}
		if a.GetOutcome() != canceled || a.GetFinishedAt() == nil || a.GetError() != "gone" ||
			r.GetSteps()[0].GetMessage() != "gone" {
			t.Errorf("attempt: got %v, want CANCELED", a)
		}
		wantCanceled(t, p, run, "gone")
	})
	t.Run("too late: the last step succeeds", func(t *testing.T) {
		p, run := running(t)
		begin(t, p, run)
		end(t, p, run, succeeded)
		begin(t, p, run)
		cancel(t, p, run)
		if r := end(t, p, run, succeeded); r.GetPhase() != holdfastv1.Run_SUCCEEDED {
			t.Errorf("got %s, want SUCCEEDED: nothing was left to cancel", r.GetPhase())
		}
		refused(t, p, &internalv1.CancelRun{RunId: run}, fsm.FailedPrecondition, fsm.ReasonRunFinished)
	})
	t.Run("ended", func(t *testing.T) {
		p, run := running(t)
		finish(t, p, run, failed)
		if e := refused(t, p, &internalv1.CancelRun{RunId: run}, fsm.FailedPrecondition,
			fsm.ReasonRunFinished); e.Meta["phase"] != "FAILED" {
			t.Errorf("got %v, want the phase in it", e.Meta)
		}
	})
	t.Run("canceled before", func(t *testing.T) {
		p, run := running(t)
		want := cancel(t, p, run)
		before := dump(t, p)
		same(t, "canceled again", want, do(t, p, &internalv1.CancelRun{RunId: run, Reason: "again"}))
		if diff := before.Diff(dump(t, p)); diff != "" {
			t.Errorf("canceled again:\n%s", diff)
		}
	})
	t.Run("nobody's", func(t *testing.T) {
		refused(t, fsmtest.NewPeer(), &internalv1.CancelRun{RunId: "run-none"}, fsm.NotFound, "RUN_NOT_FOUND")
	})
	t.Run("without a reason", func(t *testing.T) {
		p, run := running(t)
		do(t, p, &internalv1.CancelRun{RunId: run})
		wantCanceled(t, p, run, "canceled")
	})
}

// TestCancelKeepsAnEarlierFailure checks that a cancel does not clear the intervention that
// an earlier run needs.
func TestCancelKeepsAnEarlierFailure(t *testing.T) {
	p, run := running(t)
	finish(t, p, run, failed)
	want := cond(getMachine(t, p, "m"), "NeedsIntervention")
	if !want.GetStatus() {
		t.Fatalf("after a failure: got %v, want NeedsIntervention", want)
	}
	start(t, p, "m", "request-2", "REBOOT", "")
	do(t, p, &internalv1.CancelRun{RunId: "run-request-2"})
	same(t, "condition", want, cond(getMachine(t, p, "m"), "NeedsIntervention"))
}

func TestAbort(t *testing.T) {
	p, run := running(t)
	for _, phase := range []holdfastv1.Run_Phase{0, holdfastv1.Run_PENDING, holdfastv1.Run_RUNNING,
		holdfastv1.Run_SUCCEEDED} {
		refused(t, p, &internalv1.AbortRun{RunId: run, Phase: phase, Error: &holdfastv1.RunError{Reason: "x"}},
			fsm.InvalidArgument, "INVALID_FIELD")
	}
	// A run does not fail without a reason.
	refused(t, p, &internalv1.AbortRun{RunId: run, Phase: holdfastv1.Run_FAILED}, fsm.InvalidArgument, "INVALID_FIELD")
	refused(t, p, &internalv1.AbortRun{RunId: "run-none", Phase: holdfastv1.Run_CANCELED}, fsm.NotFound, "RUN_NOT_FOUND")
	want := &holdfastv1.RunError{Reason: "CapabilityMissing", Message: "no BMC", Step: "ssh", ErrorClass: "unsupported"}
	r := do(t, p, &internalv1.AbortRun{RunId: run, Phase: holdfastv1.Run_FAILED, Error: want}).(*holdfastv1.Run)
	same(t, "error", want, r.GetError())
	if r.GetPhase() != holdfastv1.Run_FAILED || r.GetSteps()[0].GetState() != holdfastv1.StepStatus_WAITING {
		t.Errorf("got %v, want a failed run with no step begun", r)
	}
	m := getMachine(t, p, "m")
	if c := cond(m, "NeedsIntervention"); !c.GetStatus() || c.GetReason() != "CapabilityMissing: ssh: no BMC" ||
		m.GetStatus().GetPhase() != maintenance {
		t.Errorf("machine: got %v, want MAINTENANCE and the reason", m.GetStatus())
	}
	refused(t, p, &internalv1.AbortRun{RunId: run, Phase: holdfastv1.Run_CANCELED}, fsm.FailedPrecondition,
		fsm.ReasonRunFinished)
}

func TestInterventionReason(t *testing.T) {
	tests := []struct {
		err  *holdfastv1.RunError
		want string
	}{
		{&holdfastv1.RunError{Reason: "StepFailed", Step: "ssh", Message: "exit 1"}, "StepFailed: ssh: exit 1"},
		{&holdfastv1.RunError{Reason: "StepFailed", Step: "ssh", Message: "denied", ErrorClass: "auth"},
			"AuthFailed: ssh: denied"},
		{&holdfastv1.RunError{Reason: "Lost"}, "Lost"},
		{&holdfastv1.RunError{Reason: "Lost", Message: strings.Repeat("ä", 500)}, "Lost: " + strings.Repeat("ä", 200)},
	}
	for _, tt := range tests {
		p, run := running(t)
		do(t, p, &internalv1.AbortRun{RunId: run, Phase: holdfastv1.Run_FAILED, Error: tt.err})
		m := getMachine(t, p, "m")
		if got := cond(m, "NeedsIntervention").GetReason(); got != tt.want {
			t.Errorf("%v: got %q, want %q", tt.err, got, tt.want)
		}
		if got := m.GetStatus().GetBanners(); len(got) != 1 || got[0] != "NeedsIntervention: "+tt.want {
			t.Errorf("%v: got banners %q", tt.err, got)
		}
	}
}
