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
	if r.GetPhase() != holdfastv1.Run_CANCELED || r.GetFinishedAt() == nil || r.GetWait() != nil ||
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
	phase := maintenance
	if r.GetStartedAt() == nil { // nothing was done
		phase = r.GetMachinePhaseBefore()
	}
	if m.GetStatus().GetPhase() != phase || m.GetStatus().GetActiveRunId() != "" ||
		cond(m, "Canceled").GetStatus() != (r.GetStartedAt() != nil) {
		t.Errorf("machine: got %v, want %s, free, Canceled %t", m.GetStatus(), phase, r.GetStartedAt() != nil)
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
			r.GetCancelReason() != "wrong machine" || r.GetNextActionAt().AsTime() != p.Now ||
			r.GetWait().GetKind() != holdfastv1.Wait_STOP {
			t.Errorf("got %v, want a request that the executor acts on now", r)
		}
		if m := getMachine(t, p, "m").GetStatus(); m.GetPhase() != provisioning || m.GetActiveRunId() != run {
			t.Errorf("machine: got %v, want it to wait for the executor", m)
		}
		// Progress is still recorded, and a second cancel changes nothing.
		do(t, p, &internalv1.NoteProgress{RunId: run, Step: "ssh", Attempt: 1, Wait: answer("host", "")})
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

// A run that is canceled before it has begun leaves its machine as it was. After that, the machine
// is an issue, which is urgent if a step that erases had begun, and says how far it was.
func TestIssueOfCanceledRun(t *testing.T) {
	erase := planOf("plan/erase", "netboot", "repave", "verify")
	erase.Steps[1].MaxRetries = new(int32(1))
	cancel := func(p *fsmtest.Peer) { do(t, p, &internalv1.CancelRun{RunId: "run-r"}) }
	stop := func(p *fsmtest.Peer) {
		cancel(p)
		if r := getRun(t, p, "run-r"); !fsm.Ended(r) {
			do(t, p, &internalv1.AbortRun{RunId: "run-r", Phase: holdfastv1.Run_CANCELED})
		}
	}
	rma := func(wipe string) *internalv1.StartRun {
		return &internalv1.StartRun{RunId: "run-r", MachineId: "m", RequestId: "r", Type: "RMA",
			Params: map[string]string{"wipe": wipe}}
	}
	to := func(p *fsmtest.Peer, step string) {
		for getRun(t, p, "run-r").GetCurrentStep() != step {
			begin(t, p, "run-r")
			end(t, p, "run-r", succeeded)
		}
	}
	for _, tt := range []struct {
		name    string
		start   *internalv1.StartRun
		do      func(p *fsmtest.Peer)
		urgency holdfastv1.Issue_Urgency // unspecified: no issue
		reason  string
	}{
		{"pending", nil, cancel, 0, ""},
		{"before it erases", nil, func(p *fsmtest.Peer) { begin(t, p, "run-r"); stop(p) }, holdfastv1.Issue_MINOR,
			"step netboot of run-r: no step that erases had begun, so the disks are unchanged"},
		{"while it erases, without an installer", nil,
			func(p *fsmtest.Peer) { to(p, "repave"); begin(t, p, "run-r"); stop(p) },
			holdfastv1.Issue_URGENT, "step repave of run-r: the disk may be written in part, and no installer has reported"},
		{"between two tries of it", nil, func(p *fsmtest.Peer) {
			to(p, "repave")
			begin(t, p, "run-r")
			end(t, p, "run-r", failed)
			stop(p)
		}, holdfastv1.Issue_URGENT, "step repave of run-r: the disk may be written in part, and no installer has reported"},
		{"after it", nil, func(p *fsmtest.Peer) { to(p, "verify"); begin(t, p, "run-r"); stop(p) }, holdfastv1.Issue_URGENT,
			"step verify of run-r: the disk was written by step repave"},
		{"a return that wipes", rma("true"), func(p *fsmtest.Peer) { to(p, "mark-rma"); begin(t, p, "run-r"); stop(p) },
			holdfastv1.Issue_URGENT, "step mark-rma of run-r: the disks may be erased in part"},
		{"after the wipe", rma("true"), func(p *fsmtest.Peer) {
			to(p, "mark-rma")
			begin(t, p, "run-r")
			do(t, p, &internalv1.NoteProgress{RunId: "run-r", Step: "mark-rma", Attempt: 1,
				Evidence: map[string]string{"disks": "disks erased by the installer"}})
			stop(p)
		}, holdfastv1.Issue_URGENT, "step mark-rma of run-r: disks erased by the installer"},
		{"a return that does not", rma("false"), func(p *fsmtest.Peer) { to(p, "mark-rma"); begin(t, p, "run-r"); stop(p) },
			holdfastv1.Issue_MINOR, "step mark-rma of run-r"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := machineIn(t, ready)
			do(t, p, &internalv1.CreatePlan{Plan: erase})
			before := getMachine(t, p, "m").GetStatus()
			if tt.start == nil {
				start(t, p, "m", "r", "REPAVE", "plan/erase")
			} else {
				do(t, p, tt.start)
			}
			tt.do(p)
			s := getMachine(t, p, "m").GetStatus()
			if tt.urgency == 0 {
				s.PhaseChangedAt = before.GetPhaseChangedAt()
				same(t, "status", before, s)
				return
			}
			if len(s.GetIssues()) != 1 || s.GetIssues()[0].GetType() != "Canceled" || s.GetPhase() != maintenance ||
				s.GetIssues()[0].GetUrgency() != tt.urgency || s.GetIssues()[0].GetReason() != tt.reason {
				t.Errorf("got %s, %v, want MAINTENANCE, and Canceled, %s: %s", s.GetPhase(), s.GetIssues(), tt.urgency, tt.reason)
			}
			// Another run that writes no disk does not end the doubt about it. An operator does.
			start(t, p, "m", "again", "REBOOT", "")
			finish(t, p, "run-again", succeeded)
			doubt := strings.Contains(tt.reason, " in part")
			if cond(getMachine(t, p, "m"), "Canceled").GetStatus() != doubt {
				t.Errorf("after a reboot: Canceled is %t, want %t", !doubt, doubt)
			}
			do(t, p, &internalv1.SetMachinePhase{MachineId: "m", Phase: ready})
			if s := getMachine(t, p, "m").GetStatus(); s.GetNeedsAttention() {
				t.Errorf("an operator has decided, and the machine has issues: %v", s.GetIssues())
			}
		})
	}
}

// A failed install stays an issue with its cause if the next run is canceled before it begins. A
// run that begins counts its attempts from zero.
func TestCanceledBeforeItBeginsKeepsTheFailedInstall(t *testing.T) {
	p := machineIn(t, ready)
	start(t, p, "m", "first", "REPAVE", "")
	begin(t, p, "run-first")
	end(t, p, "run-first", succeeded) // netboot
	begin(t, p, "run-first")
	end(t, p, "run-first", succeeded) // reboot
	for n := 1; !fsm.Ended(getRun(t, p, "run-first")); n++ {
		begin(t, p, "run-first")
		end(t, p, "run-first", failed)
	}
	want := getMachine(t, p, "m")
	if n := want.GetNode(); n.GetLastInstallError() == "" || n.GetInstallAttempts() != 3 ||
		want.GetStatus().GetNodeState() != holdfastv1.Node_INSTALL_FAILED {
		t.Fatalf("got %v, want a failed install", want)
	}
	for _, request := range []string{"second", "third"} {
		start(t, p, "m", request, "REPAVE", "")
		do(t, p, &internalv1.CancelRun{RunId: "run-" + request})
		got := getMachine(t, p, "m")
		if got.GetNode().GetLastInstallError() != want.GetNode().GetLastInstallError() ||
			got.GetNode().GetInstallAttempts() != 3 ||
			got.GetStatus().GetIssues()[0].GetReason() != want.GetStatus().GetIssues()[0].GetReason() {
			t.Errorf("after the %s run: got %v, %v; want the failed install as before", request, got.GetNode(),
				got.GetStatus().GetIssues())
		}
	}
	start(t, p, "m", "fourth", "REPAVE", "")
	begin(t, p, "run-fourth")
	if n := getMachine(t, p, "m").GetNode(); n.GetLastInstallError() != "" || n.GetInstallAttempts() != 0 {
		t.Errorf("after the begin of the next run: got %v, want no failed install", n)
	}
}

// Nothing of a machine changes with a run that is canceled before it begins, from any phase.
func TestCancelBeforeItBegins(t *testing.T) {
	for _, phase := range []holdfastv1.MachineStatus_Phase{holdfastv1.MachineStatus_FACTORY_READY, ready, inService,
		maintenance, holdfastv1.MachineStatus_RMA} {
		for _, kind := range []string{"REPAVE", "RMA", "REBOOT", "UPGRADE"} {
			p := machineIn(t, phase)
			if phase == ready { // with an installed disk
				start(t, p, "m", "first", "REPAVE", "")
				finish(t, p, "run-first", succeeded)
				do(t, p, &internalv1.SetMachinePhase{MachineId: "m", Phase: ready})
			}
			want := getMachine(t, p, "m")
			start(t, p, "m", "r", kind, "")
			do(t, p, &internalv1.CancelRun{RunId: "run-r"})
			got := getMachine(t, p, "m")
			want.Status.PhaseChangedAt, want.UpdatedAt, want.Revision = got.GetStatus().GetPhaseChangedAt(), got.GetUpdatedAt(),
				got.GetRevision()
			if want.GetNode() != nil || got.GetNode().GetLastInstallError() != "" {
				want.Node.StateChangedAt = got.GetNode().GetStateChangedAt()
			} else {
				want.Node = got.GetNode()
			}
			same(t, phase.String()+" "+kind, want, got)
		}
	}
}
