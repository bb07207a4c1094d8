package describe

import (
	"fmt"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// Wave returns the phase of a wave and its reason as a sentence.
func Wave(w *holdfastv1.Wave) string {
	unstarted := machines(w.GetWaiting(), "was", "were") + " not started."
	switch w.GetPhase() {
	case holdfastv1.Wave_RUNNING:
		return fmt.Sprintf("Running: %s active, %s waiting.", count(w.GetActive()), count(w.GetWaiting()))
	case holdfastv1.Wave_STOPPING:
		return fmt.Sprintf("Stopping: %s. It starts no more runs, and waits for %s active.", waveReason(w),
			count(w.GetActive()))
	case holdfastv1.Wave_SUCCEEDED:
		return "Succeeded: the runs of all machines succeeded."
	case holdfastv1.Wave_FAILED:
		return fmt.Sprintf("Failed: all runs were started, %s of %s succeeded.", count(w.GetSucceeded()),
			count(w.GetTotal()))
	case holdfastv1.Wave_STOPPED:
		return "Stopped: " + waveReason(w) + ". " + unstarted
	case holdfastv1.Wave_CANCELED:
		return "Canceled: " + waveReason(w) + ". " + unstarted
	}
	return ""
}

// WaveMachine returns the state of a machine of an active wave in a few words. It returns "" if its
// run has ended, because the run has the result.
func WaveMachine(w *holdfastv1.Wave, m *holdfastv1.WaveMachine) string {
	name := "wave " + w.GetWaveId()
	switch m.GetState() {
	case holdfastv1.WaveMachine_WAITING:
		if w.GetPhase() != holdfastv1.Wave_RUNNING {
			return name + " starts no run on it any more"
		}
		return "waits for its turn in " + name
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
	switch {
	case w.GetCancelReason() != "":
		return w.GetCancelReason()
	case w.GetCancelRequestedAt() != nil:
		return "no reason was given"
	}
	failures := w.GetFailed() + w.GetCanceled() + w.GetRefused()
	return fmt.Sprintf("%s failed, more than the limit of %s", machines(failures, "has", "have"),
		count(w.GetMaxFailures()))
}

// machines returns a number of machines with the verb for it.
func machines(n int32, one, many string) string {
	if n == 1 {
		many = one
	}
	return Machines(n) + " " + many
}
