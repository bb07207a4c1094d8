package describe

import (
	"fmt"
	"strings"
	"time"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// Wave returns the phase of a wave and its reason as a sentence.
func Wave(w *holdfastv1.Wave, now time.Time) string {
	why := WaveWhy(w, now)
	switch w.GetPhase() {
	case holdfastv1.Wave_RUNNING:
		return fmt.Sprintf("Running: %s active, %s waiting.", count(w.GetActive()), count(w.GetWaiting()))
	case holdfastv1.Wave_STOPPING:
		return "Stopping: " + why
	case holdfastv1.Wave_SUCCEEDED:
		return "Succeeded: the runs of all machines succeeded."
	case holdfastv1.Wave_FAILED:
		return "Failed: " + why
	case holdfastv1.Wave_STOPPED:
		return "Stopped: " + why
	case holdfastv1.Wave_CANCELED:
		return "Canceled" + strings.TrimPrefix(why, "canceled")
	}
	return ""
}

// WaveWhy returns why a wave starts no more runs, or has not succeeded, with the machine and the
// run that caused it, and the machine that holds up its end. It returns "" for all others.
func WaveWhy(w *holdfastv1.Wave, now time.Time) string {
	unstarted := machines(w.GetNotStarted(), "was", "were") + " not started."
	switch w.GetPhase() {
	case holdfastv1.Wave_STOPPING:
		return waveReason(w) + ". It starts no more runs, and waits for " + waitsFor(w, now) + "."
	case holdfastv1.Wave_FAILED:
		return fmt.Sprintf("all runs were started, %s of %s succeeded%s.", count(w.GetSucceeded()), count(w.GetTotal()),
			lastFailure(w))
	case holdfastv1.Wave_STOPPED, holdfastv1.Wave_CANCELED:
		return waveReason(w) + ". " + unstarted
	}
	return ""
}

// waitsFor returns the active machines of a wave, and the one that has waited longest.
func waitsFor(w *holdfastv1.Wave, now time.Time) string {
	text := count(w.GetActive()) + " active"
	if m := w.GetHoldsUp(); m.GetMachineId() != "" {
		text += ": " + machineRun(m)
		if waits := WaveMachineWaits(m, now); waits != "" {
			text += " " + waits
		}
	}
	return text
}

// WaveMachineWaits returns the wait of an active machine: "has waited 13s for power".
func WaveMachineWaits(m *holdfastv1.WaveMachine, now time.Time) string {
	switch w := m.GetWait(); {
	case w == nil:
		return ""
	case w.GetSince() == nil:
		return "waits for " + Wait(w)
	default:
		return "has waited " + Duration(now.Sub(w.GetSince().AsTime())) + " for " + Wait(w)
	}
}

// machineRun returns a machine of a wave and its run, if it has one.
func machineRun(m *holdfastv1.WaveMachine) string {
	if m.GetRunId() == "" {
		return m.GetMachineId()
	}
	return m.GetMachineId() + " (" + m.GetRunId() + ")"
}

// WaveMachine returns the state of a machine of an active wave in a few words. It returns "" if its
// run has ended, because the run has the result.
func WaveMachine(w *holdfastv1.Wave, m *holdfastv1.WaveMachine) string {
	name := "wave " + w.GetWaveId()
	switch m.GetState() {
	case holdfastv1.WaveMachine_WAITING:
		return "waits for its turn in " + name
	case holdfastv1.WaveMachine_NOT_STARTED:
		return name + " starts no run on it any more"
	case holdfastv1.WaveMachine_ACTIVE:
		return "the run is part of " + name
	case holdfastv1.WaveMachine_REFUSED:
		return name + " could not start a run: " + m.GetError()
	}
	return ""
}

func count(n int32) string { return Count(int(n)) }

// waveReason returns why a wave starts no more runs.
func waveReason(w *holdfastv1.Wave) string {
	if w.GetCancelRequestedAt() != nil {
		text := "canceled"
		if w.GetCanceledBy() != "" {
			text += " by " + w.GetCanceledBy()
		}
		if w.GetCancelReason() == "" {
			return text + ", no reason was given"
		}
		return text + ": " + w.GetCancelReason()
	}
	failures := w.GetFailed() + w.GetCanceled() + w.GetRefused()
	return fmt.Sprintf("%s failed, more than the limit of %s%s", machines(failures, "has", "have"),
		count(w.GetMaxFailures()), lastFailure(w))
}

// failureText is the number of characters of an error in the sentence of a wave.
const failureText = 160

// lastFailure returns the machine that failed last, with its run and its error, for the end of a
// sentence.
func lastFailure(w *holdfastv1.Wave) string {
	m := w.GetLastFailure()
	if m.GetMachineId() == "" {
		return ""
	}
	verb := map[holdfastv1.WaveMachine_State]string{
		holdfastv1.WaveMachine_CANCELED: " was canceled", holdfastv1.WaveMachine_REFUSED: " could not start",
	}[m.GetState()]
	if verb == "" {
		verb = " failed"
	}
	text := "; last, " + machineRun(m) + verb
	if m.GetError() != "" {
		text += ": " + Cut(m.GetError(), failureText)
	}
	return text
}

// machines returns a number of machines with the verb for it.
func machines(n int32, one, many string) string {
	if n == 1 {
		many = one
	}
	return Machines(n) + " " + many
}
