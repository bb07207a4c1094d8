package waves

import (
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-metal/holdfast/fsm/internal/core"
	"github.com/holdfast-metal/holdfast/fsm/internal/lex"
	"github.com/holdfast-metal/holdfast/fsm/internal/lifecycle"
	"github.com/holdfast-metal/holdfast/fsm/internal/schema"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// Ended reports whether a wave has ended.
func Ended(w *holdfastv1.Wave) bool { return w.GetFinishedAt() != nil }

// NoteEnd records the end of a run in the wave that started it, if any.
func NoteEnd(t *core.Tx, run *holdfastv1.Run) {
	if !t.Waves.Has(run.GetRequestId()) {
		return
	}
	m, ok := t.WaveMembers.Edit(schema.MemberKey(run.GetRequestId(), run.GetMachineId()))
	if !ok || m.GetMachine().GetRunId() != run.GetRunId() || m.GetMachine().GetState() != holdfastv1.WaveMachine_ACTIVE {
		return // the caller of StartRun used the wave's id
	}
	w, _ := t.Waves.Edit(run.GetRequestId())
	move(w, m, stateOf(run))
	noteFailure(w, m, run.GetError().GetReason(), run.GetError().GetMessage())
	Put(t, w, m)
}

// NoteStart records the run of a waiting machine. The run may have ended, if a caller of StartRun
// used the wave's id before.
func NoteStart(t *core.Tx, w *holdfastv1.Wave, m *internalv1.WaveMember, run *holdfastv1.Run) {
	m.Machine.RunId = run.GetRunId()
	move(w, m, stateOf(run))
	noteFailure(w, m, run.GetError().GetReason(), run.GetError().GetMessage())
	Put(t, w, m)
}

// NoteRefusal records that the run of a waiting machine cannot be started.
func NoteRefusal(t *core.Tx, w *holdfastv1.Wave, m *internalv1.WaveMember, reason, text string) {
	m.Machine.Reason, m.Machine.Error = reason, text
	move(w, m, holdfastv1.WaveMachine_REFUSED)
	noteFailure(w, m, reason, text)
	Put(t, w, m)
}

// maxFailureText bounds the error of the last failure, which each list of waves has, in bytes.
const maxFailureText = 1000

// noteFailure records a machine that counts as a failure, until the wave starts no more runs: what
// stopped it must not be hidden by a later failure.
func noteFailure(w *holdfastv1.Wave, m *internalv1.WaveMember, reason, text string) {
	switch m.GetMachine().GetState() {
	case holdfastv1.WaveMachine_FAILED, holdfastv1.WaveMachine_CANCELED, holdfastv1.WaveMachine_REFUSED:
	default:
		return
	}
	if w.GetPhase() != holdfastv1.Wave_RUNNING {
		return
	}
	w.LastFailure = &holdfastv1.WaveMachine{
		MachineId: m.GetMachine().GetMachineId(), RunId: m.GetMachine().GetRunId(), State: m.GetMachine().GetState(),
		Reason: reason, Error: lex.Clip(text, maxFailureText),
	}
}

// Stop ends the starts of a wave: its waiting machines are not started any more. The records of
// these machines stay as they are, because there may be thousands: View shows them as NOT_STARTED.
func Stop(w *holdfastv1.Wave) {
	w.Phase = holdfastv1.Wave_STOPPING
	w.NotStarted, w.Waiting = w.GetNotStarted()+w.GetWaiting(), 0
}

// Put stores a wave and a machine of it, which may be nil, and ends the wave if nothing is left to
// do.
func Put(t *core.Tx, w *holdfastv1.Wave, m *internalv1.WaveMember) {
	if m != nil {
		t.WaveMembers.Put(m)
	}
	if w.GetPhase() == holdfastv1.Wave_RUNNING && w.GetWaiting() > 0 && Failures(w) > w.GetMaxFailures() {
		Stop(w)
	}
	if w.GetActive() == 0 && (w.GetWaiting() == 0 || w.GetPhase() == holdfastv1.Wave_STOPPING) {
		w.Phase, w.FinishedAt = outcome(w), t.Now
	}
	w.Revision = t.Index
	t.Waves.Put(w)
}

// Failures returns the number of machines that count as failures.
func Failures(w *holdfastv1.Wave) int32 { return w.GetFailed() + w.GetCanceled() + w.GetRefused() }

// Abandon ends all active waves, whose progress is not certain: their machines must not be started
// from an old record.
func Abandon(t *core.Tx, why string) {
	for _, w := range active(t.State) {
		w = proto.CloneOf(w)
		w.CancelRequestedAt, w.CancelReason = t.Now, why
		Stop(w)
		Put(t, w, nil)
	}
}

// outcome returns the phase of a wave that ends.
func outcome(w *holdfastv1.Wave) holdfastv1.Wave_Phase {
	switch {
	case w.GetCancelRequestedAt() != nil:
		return holdfastv1.Wave_CANCELED
	case w.GetNotStarted() > 0:
		return holdfastv1.Wave_STOPPED
	case w.GetSucceeded() == w.GetTotal():
		return holdfastv1.Wave_SUCCEEDED
	}
	return holdfastv1.Wave_FAILED
}

// move changes the state of a machine and the counts of its wave.
func move(w *holdfastv1.Wave, m *internalv1.WaveMember, to holdfastv1.WaveMachine_State) {
	if n := counter(w, m.GetMachine().GetState()); n != nil {
		*n--
	}
	if n := counter(w, to); n != nil {
		*n++
	}
	m.Machine.State = to
}

// counter returns the count of the machines in a state.
func counter(w *holdfastv1.Wave, s holdfastv1.WaveMachine_State) *int32 {
	switch s {
	case holdfastv1.WaveMachine_WAITING:
		return &w.Waiting
	case holdfastv1.WaveMachine_ACTIVE:
		return &w.Active
	case holdfastv1.WaveMachine_SUCCEEDED:
		return &w.Succeeded
	case holdfastv1.WaveMachine_FAILED:
		return &w.Failed
	case holdfastv1.WaveMachine_CANCELED:
		return &w.Canceled
	case holdfastv1.WaveMachine_REFUSED:
		return &w.Refused
	}
	return nil
}

// stateOf returns the state of a machine with a run.
func stateOf(run *holdfastv1.Run) holdfastv1.WaveMachine_State {
	switch {
	case !lifecycle.Ended(run):
		return holdfastv1.WaveMachine_ACTIVE
	case run.GetPhase() == holdfastv1.Run_SUCCEEDED:
		return holdfastv1.WaveMachine_SUCCEEDED
	case run.GetPhase() == holdfastv1.Run_CANCELED:
		return holdfastv1.WaveMachine_CANCELED
	}
	return holdfastv1.WaveMachine_FAILED
}
