package display

import (
	"fmt"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// WaveShare is the number of machines of a wave in a state, and its part of a bar of width 1000.
type WaveShare struct {
	State    holdfastv1.WaveMachine_State
	Class    string // CSS class of the colour
	Count    int
	X, Width int
}

// WaveShares returns the counts of a wave in the order of its bar.
func WaveShares(w *holdfastv1.Wave) []WaveShare {
	all := []WaveShare{
		{State: holdfastv1.WaveMachine_SUCCEEDED, Class: "t-good", Count: int(w.GetSucceeded())},
		{State: holdfastv1.WaveMachine_FAILED, Class: "t-bad", Count: int(w.GetFailed())},
		{State: holdfastv1.WaveMachine_REFUSED, Class: "t-bad", Count: int(w.GetRefused())},
		{State: holdfastv1.WaveMachine_CANCELED, Class: "t-canceled", Count: int(w.GetCanceled())},
		{State: holdfastv1.WaveMachine_ACTIVE, Class: "t-open", Count: int(w.GetActive())},
		{State: holdfastv1.WaveMachine_WAITING, Class: "t-track", Count: int(w.GetWaiting())},
	}
	before, total := 0, max(1, int(w.GetTotal()))
	for i := range all {
		s := &all[i]
		s.X = 1000 * before / total
		before += s.Count
		s.Width = 1000*before/total - s.X
	}
	return all
}

// WaveSummary returns the phase of a wave and its reason as a sentence.
func WaveSummary(w *holdfastv1.Wave) string {
	unstarted := machines(w.GetWaiting(), "was", "were") + " not started."
	switch w.GetPhase() {
	case holdfastv1.Wave_RUNNING:
		return fmt.Sprintf("Running: %s active, %s waiting.", Count(int(w.GetActive())), Count(int(w.GetWaiting())))
	case holdfastv1.Wave_STOPPING:
		return fmt.Sprintf("Stopping: %s. It starts no more runs, and waits for %s active.", waveReason(w),
			Count(int(w.GetActive())))
	case holdfastv1.Wave_SUCCEEDED:
		return "Succeeded: the runs of all machines succeeded."
	case holdfastv1.Wave_FAILED:
		return fmt.Sprintf("Failed: all runs were started, %s of %s succeeded.", Count(int(w.GetSucceeded())),
			Count(int(w.GetTotal())))
	case holdfastv1.Wave_STOPPED:
		return "Stopped: " + waveReason(w) + ". " + unstarted
	case holdfastv1.Wave_CANCELED:
		return "Canceled: " + waveReason(w) + ". " + unstarted
	}
	return ""
}

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
		Count(int(w.GetMaxFailures())))
}

// machines returns a number of machines with the verb for it.
func machines(n int32, one, many string) string {
	if n == 1 {
		return "1 machine " + one
	}
	return Count(int(n)) + " machines " + many
}
