package display

import holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"

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
		{State: holdfastv1.WaveMachine_NOT_STARTED, Class: "t-track", Count: int(w.GetNotStarted())},
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
