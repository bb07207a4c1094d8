package fsm_test

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/fsm/fsmtest"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// running returns a peer with a run of two steps, ssh (2 retries) and reboot (none), on machine m.
func running(t *testing.T) (*fsmtest.Peer, string) {
	t.Helper()
	p := fsmtest.NewPeer()
	register(t, p, "m", ready)
	pl := planOf("plan/x", "ssh", "reboot")
	pl.Steps[0].MaxRetries = proto.Int32(2)
	do(t, p, &internalv1.CreatePlan{Plan: pl})
	return p, start(t, p, "m", "request-1", "", "plan/x").GetRunId()
}

// answer returns a wait as the executor reports it.
func answer(of, cause string) *holdfastv1.Wait {
	return &holdfastv1.Wait{Kind: holdfastv1.Wait_ANSWER, Subject: of, Cause: cause, Sentence: "not for the state"}
}

func TestAttemptsOfARun(t *testing.T) {
	p, run := running(t)
	deadline, next := timestamppb.New(p.Now.Add(time.Hour)), timestamppb.New(p.Now.Add(time.Minute))

	// The intent is recorded first, with the state before the effect.
	got := do(t, p, &internalv1.BeginAttempt{RunId: run, Step: "ssh", Attempt: 1, Deadline: deadline, NextActionAt: next,
		EvidenceBefore: map[string]string{"boot_id": "b1"}}).(*holdfastv1.Run)
	t1 := p.View().Meta().GetNow()
	want := getRun(t, p, run)
	same(t, "result", want, got)
	step := want.GetSteps()[0]
	if want.GetPhase() != holdfastv1.Run_RUNNING || want.GetQueuePosition() != 0 ||
		want.GetWait().GetKind() != holdfastv1.Wait_STEP || want.GetWait().GetSubject() != "ssh" ||
		step.GetState() != holdfastv1.StepStatus_RUNNING || step.GetRetryCount() != 0 {
		t.Errorf("begun: got %v", want)
	}
	for what, pair := range map[string][2]*timestamppb.Timestamp{
		"run started_at": {t1, want.GetStartedAt()}, "step started_at": {t1, step.GetStartedAt()},
		"start of the wait": {t1, want.GetWait().GetSince()},
		"deadline":          {deadline, want.GetDeadline()}, "next_action_at": {next, want.GetNextActionAt()},
	} {
		same(t, what, pair[0], pair[1])
	}
	same(t, "attempt", &holdfastv1.Attempt{Number: 1, Epochs: []uint64{1}, StartedAt: t1,
		EvidenceBefore: map[string]string{"boot_id": "b1"}}, step.GetAttempts()[0])

	// Progress is merged.
	do(t, p, &internalv1.NoteProgress{RunId: run, Step: "ssh", Attempt: 1, Wait: answer("host", ""),
		Evidence: map[string]string{"pid": "7", "at": "1"}, NextActionAt: deadline})
	since := p.View().Meta().GetNow()
	do(t, p, &internalv1.NoteProgress{RunId: run, Step: "ssh", Attempt: 1, Wait: answer("host", "refused"),
		Evidence: map[string]string{"at": "2"}, Log: logAppend(run, 0, "hello\n")})
	do(t, p, &internalv1.NoteProgress{RunId: run, Step: "ssh", Attempt: 1})
	want = getRun(t, p, run)
	same(t, "evidence", map[string]string{"pid": "7", "at": "2"}, want.GetSteps()[0].GetAttempts()[0].GetEvidenceAfter())
	waits := answer("host", "refused") // another cause does not restart it, and its sentence is not stored
	waits.Since, waits.Sentence = since, ""
	same(t, "wait", waits, want.GetWait())
	if want.GetNextActionAt() != nil || want.GetLogBytes() != 6 {
		t.Errorf("progress: got %v", want)
	}

	// A failure with retries left.
	retryAt := timestamppb.New(p.Now.Add(time.Minute))
	do(t, p, &internalv1.EndAttempt{RunId: run, Step: "ssh", Attempt: 1, Outcome: failed, Error: "exit 1",
		ErrorClass:    "transient",
		EvidenceAfter: map[string]string{"exit": "1"}, RetryAt: retryAt, Log: logAppend(run, 6, "bye\n")})
	t2 := p.View().Meta().GetNow()
	want = getRun(t, p, run)
	step = want.GetSteps()[0]
	same(t, "attempt", &holdfastv1.Attempt{Number: 1, Epochs: []uint64{1}, StartedAt: t1, FinishedAt: t2,
		Outcome: failed, Error: "exit 1", ErrorClass: "transient",
		EvidenceBefore: map[string]string{"boot_id": "b1"}, EvidenceAfter: map[string]string{"pid": "7", "at": "2",
			"exit": "1"}}, step.GetAttempts()[0])
	same(t, "next_action_at", retryAt, want.GetNextActionAt())
	if want.GetPhase() != holdfastv1.Run_RUNNING || step.GetState() != holdfastv1.StepStatus_RUNNING ||
		step.GetMessage() != "exit 1" ||
		want.GetDeadline() != nil || want.GetLogBytes() != 10 {
		t.Errorf("between attempts: got %v", want)
	}

	same(t, "wait", &holdfastv1.Wait{Kind: holdfastv1.Wait_RETRY, Subject: "ssh", Number: 1, Since: t2}, want.GetWait())

	// The retry succeeds, and the next step begins.
	begin(t, p, run)
	if got := getRun(t, p, run).GetSteps()[0].GetRetryCount(); got != 1 {
		t.Errorf("retry_count: got %d, want 1", got)
	}
	do(t, p, &internalv1.EndAttempt{RunId: run, Step: "ssh", Attempt: 2, Outcome: succeeded, Message: "exit 0"})
	want = getRun(t, p, run)
	step = want.GetSteps()[0]
	if step.GetState() != holdfastv1.StepStatus_SUCCEEDED || step.GetMessage() != "exit 0" ||
		step.GetFinishedAt() == nil ||
		want.GetCurrentStep() != "reboot" || want.GetSteps()[1].GetState() != holdfastv1.StepStatus_WAITING ||
		want.GetPhase() != holdfastv1.Run_RUNNING {
		t.Errorf("after the first step: got %v", want)
	}
	same(t, "wait", &holdfastv1.Wait{Kind: holdfastv1.Wait_TURNSTILE, Subject: "reboot", Since: want.GetNextActionAt()},
		want.GetWait())
	begin(t, p, run)
	end(t, p, run, succeeded)
	want = getRun(t, p, run)
	if want.GetPhase() != holdfastv1.Run_SUCCEEDED || want.GetCurrentStep() != "" || want.GetFinishedAt() == nil ||
		want.GetError() != nil ||
		want.GetWait() != nil || want.GetDeadline() != nil ||
		want.GetNextActionAt() != nil {
		t.Errorf("at the end: got %v", want)
	}
}

func TestRetries(t *testing.T) {
	tests := []struct {
		name      string
		plan      *int32 // max_retries of the step
		byDefault int32
		permanent int32 // the attempt that fails permanently
		attempts  int   // until the run has failed
	}{
		{"none", proto.Int32(0), 5, 0, 1},
		{"one", proto.Int32(1), 5, 0, 2},
		{"three", proto.Int32(3), 0, 0, 4},
		{"by default", nil, 2, 0, 3},
		{"no default", nil, 0, 0, 1},
		{"permanent at once", proto.Int32(3), 0, 1, 1},
		{"permanent later", proto.Int32(3), 0, 3, 3},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := fsmtest.NewPeer()
			register(t, p, "m", ready)
			pl := planOf("plan/x", "ssh")
			pl.Steps[0].MaxRetries = tt.plan
			do(t, p, &internalv1.CreatePlan{Plan: pl})
			op := startOp("m", "request-1", "", "plan/x")
			op.DefaultMaxRetries = tt.byDefault
			do(t, p, op)
			for n := 1; ; n++ {
				begin(t, p, "run-request-1")
				r := do(t, p, &internalv1.EndAttempt{RunId: "run-request-1", Step: "ssh", Attempt: int32(n), Outcome: failed,
					Error:      "exit 1",
					ErrorClass: "transient", Permanent: int32(n) == tt.permanent}).(*holdfastv1.Run)
				s := r.GetSteps()[0]
				if s.GetRetryCount() != int32(n-1) || len(s.GetAttempts()) != n {
					t.Errorf("after attempt %d: got retry_count %d and %d attempts", n, s.GetRetryCount(), len(s.GetAttempts()))
				}
				if !fsm.Ended(r) {
					if n > 10 {
						t.Fatal("no end")
					}
					continue
				}
				if n != tt.attempts {
					t.Errorf("failed after %d attempts, want %d", n, tt.attempts)
				}
				want := &holdfastv1.RunError{Reason: "StepFailed", Message: "exit 1", Step: "ssh", Attempt: int32(n),
					ErrorClass: "transient"}
				same(t, "error", want, r.GetError())
				if r.GetPhase() != holdfastv1.Run_FAILED || s.GetState() != holdfastv1.StepStatus_FAILED ||
					r.GetCurrentStep() != "ssh" {
					t.Errorf("got %v, want a failed step and run", r)
				}
				return
			}
		})
	}
}

func TestAttemptNumbers(t *testing.T) {
	p, run := running(t)
	tryAll := func(when string, next int32) {
		t.Helper()
		for n := int32(-1); n < 5; n++ {
			for _, step := range []string{"ssh", "reboot", "", "none"} {
				if n == next && step == "ssh" {
					continue
				}
				if e := refused(t, p, &internalv1.BeginAttempt{RunId: run, Step: step, Attempt: n}, fsm.Aborted,
					fsm.ReasonAttemptMismatch); !strings.Contains(e.Message, run) {
					t.Errorf("%s: got %q, want it to name the run", when, e.Message)
				}
			}
		}
	}
	tryAll("pending", 1)
	begin(t, p, run)
	tryAll("open, same epoch", -5)
	end(t, p, run, failed)
	tryAll("between attempts", 2)
	begin(t, p, run)
	tryAll("open again", -5)
	end(t, p, run, succeeded)
	refused(t, p, &internalv1.BeginAttempt{RunId: run, Step: "ssh", Attempt: 3}, fsm.Aborted, fsm.ReasonAttemptMismatch)
	finish(t, p, run, succeeded)
	refused(t, p, &internalv1.BeginAttempt{RunId: run, Step: "reboot", Attempt: 2}, fsm.FailedPrecondition,
		fsm.ReasonRunFinished)
	refused(t, p, &internalv1.BeginAttempt{RunId: "run-none", Step: "reboot", Attempt: 1}, fsm.NotFound, "RUN_NOT_FOUND")
}

func TestOutcomesNeedTheirAttempt(t *testing.T) {
	p, run := running(t)
	both := func(step string, n int32, code fsm.Code, reason string) {
		t.Helper()
		refused(t, p, &internalv1.NoteProgress{RunId: run, Step: step, Attempt: n}, code, reason)
		refused(t, p, &internalv1.EndAttempt{RunId: run, Step: step, Attempt: n, Outcome: succeeded,
			Log: logAppend(run, 0, "x")}, code, reason)
	}
	both("ssh", 0, fsm.Aborted, fsm.ReasonAttemptMismatch)
	both("ssh", 1, fsm.Aborted, fsm.ReasonAttemptMismatch)
	begin(t, p, run)
	both("ssh", 0, fsm.Aborted, fsm.ReasonAttemptMismatch)
	both("ssh", 2, fsm.Aborted, fsm.ReasonAttemptMismatch)
	both("reboot", 1, fsm.Aborted, fsm.ReasonAttemptMismatch)
	refused(t, p, &internalv1.EndAttempt{RunId: run, Step: "ssh", Attempt: 1}, fsm.InvalidArgument, "INVALID_FIELD")
	gap := logAppend(run, 1, "x")
	refused(t, p, &internalv1.NoteProgress{RunId: run, Step: "ssh", Attempt: 1, Evidence: map[string]string{"a": "b"},
		Log: gap}, fsm.Aborted, fsm.ReasonLogGap)
	refused(t, p, &internalv1.EndAttempt{RunId: run, Step: "ssh", Attempt: 1, Outcome: failed, Log: gap}, fsm.Aborted,
		fsm.ReasonLogGap)
	end(t, p, run, failed)
	// A retry after the response to the first EndAttempt was lost.
	both("ssh", 1, fsm.Aborted, fsm.ReasonAttemptMismatch)
	finish(t, p, run, succeeded)
	both("reboot", 1, fsm.FailedPrecondition, fsm.ReasonRunFinished)
	run = "run-none"
	both("reboot", 1, fsm.NotFound, "RUN_NOT_FOUND")
}

func TestAdoptedAttempt(t *testing.T) {
	p, run := running(t)
	do(t, p, &internalv1.BeginAttempt{RunId: run, Step: "ssh", Attempt: 1,
		EvidenceBefore: map[string]string{"boot_id": "b1"}})
	first := getRun(t, p, run).GetSteps()[0].GetAttempts()[0]
	again := func() *internalv1.BeginAttempt {
		return &internalv1.BeginAttempt{RunId: run, Step: "ssh", Attempt: 1,
			EvidenceBefore: map[string]string{"boot_id": "b2"}}
	}
	refused(t, p, again(), fsm.Aborted, fsm.ReasonAttemptMismatch) // its leader has already begun it
	p.Lead(5)
	// The new leader has not adopted the attempt, so it may not report an outcome.
	refused(t, p, &internalv1.EndAttempt{RunId: run, Step: "ssh", Attempt: 1, Outcome: succeeded}, fsm.Aborted,
		fsm.ReasonAttemptMismatch)
	refused(t, p, &internalv1.NoteProgress{RunId: run, Step: "ssh", Attempt: 1}, fsm.Aborted, fsm.ReasonAttemptMismatch)
	second := again()
	second.Attempt = 2
	refused(t, p, second, fsm.Aborted, fsm.ReasonAttemptMismatch) // the first one is open

	do(t, p, again())
	want := proto.CloneOf(first)
	want.Epochs = []uint64{1, 5}
	got := getRun(t, p, run)
	taken := got.GetSteps()[0].GetAttempts()[0]
	want.Deadline, want.EndsBy = taken.GetDeadline(), taken.GetEndsBy() // TestLeadersDoNotProlongAttempt
	same(t, "adopted attempt", want, got.GetSteps()[0].GetAttempts()[0])
	if got.GetSteps()[0].GetRetryCount() != 0 || len(got.GetSteps()[0].GetAttempts()) != 1 ||
		got.GetWait().GetKind() != holdfastv1.Wait_STEP {
		t.Errorf("adopted: got %v, want no retry counted", got)
	}
	refused(t, p, again(), fsm.Aborted, fsm.ReasonAttemptMismatch)
	p.Lead(6)
	do(t, p, again())
	end(t, p, run, failed)
	if got := getRun(t, p, run).GetSteps()[0].GetAttempts()[0].GetEpochs(); len(got) != 3 {
		t.Errorf("epochs: got %v, want 1, 5, 6", got)
	}
	p.Lead(7)
	refused(t, p, again(), fsm.Aborted, fsm.ReasonAttemptMismatch) // it has ended
	begin(t, p, run)
}

func TestStaleEpochs(t *testing.T) {
	p, run := running(t)
	p.Lead(5)
	begin(t, p, run)
	other := startOp("m-2", "request-2", "REBOOT", "")
	register(t, p, "m-2", ready)
	do(t, p, other)
	finish(t, p, other.GetRunId(), succeeded)
	ops := []proto.Message{
		&internalv1.ObserveConditions{Machines: []*internalv1.MachineConditions{{MachineId: "m",
			Conditions: []*holdfastv1.Condition{{Type: "Reachable", Status: true}}}}},
		&internalv1.BeginAttempt{RunId: run, Step: "ssh", Attempt: 1},
		&internalv1.NoteProgress{RunId: run, Step: "ssh", Attempt: 1},
		&internalv1.EndAttempt{RunId: run, Step: "ssh", Attempt: 1, Outcome: succeeded},
		&internalv1.AbortRun{RunId: run, Phase: holdfastv1.Run_CANCELED},
		&internalv1.AppendRunLogs{Appends: []*internalv1.LogAppend{logAppend(run, 0, "x")}},
		&internalv1.CompactRunLog{RunId: other.GetRunId(), Block: &internalv1.LogBlock{}},
	}
	for _, op := range ops {
		for _, epoch := range []uint64{1, 4, 6, ^uint64(0)} {
			before := dump(t, p)
			c := fsmtest.Command(proto.Clone(op))
			c.Epoch = epoch
			r := p.Propose(c)[0]
			if r.Err == nil || r.Err.Reason != fsm.ReasonStaleEpoch || r.Err.Code != fsm.Aborted {
				t.Errorf("%s of epoch %d: got %v, want STALE_EPOCH", op.ProtoReflect().Descriptor().Name(), epoch, r.Err)
			}
			if diff := before.Diff(dump(t, p)); diff != "" {
				t.Errorf("%s of epoch %d has changed:\n%s", op.ProtoReflect().Descriptor().Name(), epoch, diff)
			}
		}
	}
	// Commands of clients have no epoch.
	for _, op := range []proto.Message{&internalv1.CancelRun{RunId: run}, registerOp("m-3", nil)} {
		c := fsmtest.Command(op)
		c.Epoch = 1
		if r := p.Propose(c)[0]; r.Err != nil {
			t.Errorf("%s: got %v, want it to be applied", op.ProtoReflect().Descriptor().Name(), r.Err)
		}
	}
}
