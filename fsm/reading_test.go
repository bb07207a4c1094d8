package fsm_test

import (
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/holdfast-metal/holdfast/fsm"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// TestNoteReading checks that a run whose machine is being read has left the queue and has not
// begun.
func TestNoteReading(t *testing.T) {
	p, run := running(t)
	since, end := timestamppb.New(p.Now.Add(-time.Second)), timestamppb.New(p.Now.Add(20*time.Second))
	note := &internalv1.NoteReading{
		RunId: run, Step: "ssh", Attempt: 1, Wait: &holdfastv1.Wait{Kind: holdfastv1.Wait_READING, Subject: "BMC",
			Since: since, Deadline: end},
	}
	do(t, p, note)
	got := getRun(t, p, run)
	if got.GetPhase() != holdfastv1.Run_PENDING || got.GetQueuePosition() != 0 || got.GetDeadline() != nil {
		t.Errorf("got %v, want a pending run that waits for the BMC", got)
	}
	same(t, "wait", note.GetWait(), got.GetWait())

	refused(t, p, &internalv1.NoteReading{RunId: run, Step: "ssh", Attempt: 2}, fsm.Aborted, fsm.ReasonAttemptMismatch)
	do(t, p, &internalv1.BeginAttempt{RunId: run, Step: "ssh", Attempt: 1})
	refused(t, p, note, fsm.Aborted, fsm.ReasonAttemptMismatch) // it is late
	do(t, p, &internalv1.EndAttempt{RunId: run, Step: "ssh", Attempt: 1, Outcome: holdfastv1.Attempt_FAILED})
	note.Attempt = 2
	do(t, p, note)
	if got := getRun(t, p, run); got.GetPhase() != holdfastv1.Run_RUNNING || got.GetWait().GetSubject() != "BMC" {
		t.Errorf("before the second attempt: got %v", got)
	}
	do(t, p, &internalv1.CancelRun{RunId: run})
	refused(t, p, note, fsm.FailedPrecondition, fsm.ReasonCancelRequested)
}

// TestReadingDoesNotBegin checks that a cancel ends a run whose machine is being read at once.
func TestReadingDoesNotBegin(t *testing.T) {
	p, run := running(t)
	do(t, p, &internalv1.NoteReading{RunId: run, Step: "ssh", Attempt: 1, Wait: answer("BMC", "")})
	do(t, p, &internalv1.CancelRun{RunId: run})
	if got := getRun(t, p, run); got.GetPhase() != holdfastv1.Run_CANCELED || got.GetWait() != nil {
		t.Errorf("got %v, want a canceled run", got)
	}
}
