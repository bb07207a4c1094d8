package fsmtest

import (
	"errors"
	"fmt"
	"slices"

	"github.com/holdfast-metal/holdfast/fsm"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// checkWaves checks that the counts of each wave are those of its machines, that its limits hold,
// and that a machine's state is that of its run.
func checkWaves(v *fsm.View) error {
	var errs []error
	for _, w := range v.Waves("") {
		if err := checkWave(v, w); err != nil {
			errs = append(errs, fmt.Errorf("wave %s: %w", w.GetWaveId(), err))
		}
	}
	return errors.Join(errs...)
}

func checkWave(v *fsm.View, w *holdfastv1.Wave) error {
	counts := map[holdfastv1.WaveMachine_State]int32{}
	for m := range v.WaveMachines(w.GetWaveId()) {
		counts[m.GetState()]++
		run, ok := v.Run(m.GetRunId())
		switch active := m.GetState() == holdfastv1.WaveMachine_ACTIVE; {
		case ok != (m.GetRunId() != ""):
			return fmt.Errorf("machine %s has run %q, which is gone", m.GetMachineId(), m.GetRunId())
		case ok && (run.GetMachineId() != m.GetMachineId() || run.GetRequestId() != w.GetWaveId()):
			return fmt.Errorf("machine %s has the run of machine %s and request %q", m.GetMachineId(), run.GetMachineId(),
				run.GetRequestId())
		case active != (ok && !fsm.Ended(run)):
			return fmt.Errorf("machine %s is %s, and its run %s", m.GetMachineId(), m.GetState(), run.GetPhase())
		}
	}
	got := []int32{w.GetWaiting(), w.GetActive(), w.GetSucceeded(), w.GetFailed(), w.GetCanceled(), w.GetRefused(),
		w.GetNotStarted()}
	var want []int32
	var total int32
	for s := holdfastv1.WaveMachine_WAITING; s <= holdfastv1.WaveMachine_NOT_STARTED; s++ {
		want, total = append(want, counts[s]), total+counts[s]
	}
	switch {
	case !slices.Equal(got, want) || total != w.GetTotal():
		return fmt.Errorf("its counts are %v of %d, those of its machines %v", got, w.GetTotal(), want)
	case w.GetActive() > w.GetMaxParallel():
		return fmt.Errorf("%d runs are active, its limit is %d", w.GetActive(), w.GetMaxParallel())
	}
	return checkWavePhase(w)
}

// checkWavePhase checks that the phase of a wave follows from its counts.
func checkWavePhase(w *holdfastv1.Wave) error {
	ended := w.GetFinishedAt() != nil
	failures := w.GetFailed() + w.GetCanceled() + w.GetRefused()
	idle := w.GetActive() == 0 && (w.GetWaiting() == 0 || w.GetPhase() != holdfastv1.Wave_RUNNING)
	over := failures > w.GetMaxFailures() && w.GetWaiting() > 0
	switch {
	case w.GetWaiting() > 0 && w.GetPhase() != holdfastv1.Wave_RUNNING:
		return fmt.Errorf("it is %s, and %d machines wait", w.GetPhase(), w.GetWaiting())
	case w.GetNotStarted() > 0 && w.GetPhase() == holdfastv1.Wave_RUNNING:
		return fmt.Errorf("it is RUNNING, and does not start %d machines", w.GetNotStarted())
	case (w.GetPhase() == holdfastv1.Wave_STOPPED || w.GetPhase() == holdfastv1.Wave_FAILED) &&
		w.GetLastFailure().GetMachineId() == "":
		return fmt.Errorf("it is %s, and does not name the machine that failed", w.GetPhase())
	case ended != idle:
		return fmt.Errorf("it is %s, ended %t, with %d active and %d waiting", w.GetPhase(), ended, w.GetActive(),
			w.GetWaiting())
	case over && w.GetPhase() == holdfastv1.Wave_RUNNING:
		return fmt.Errorf("it starts runs after %d failures, its limit is %d", failures, w.GetMaxFailures())
	case (w.GetPhase() == holdfastv1.Wave_SUCCEEDED) !=
		(w.GetSucceeded() == w.GetTotal() && w.GetCancelRequestedAt() == nil):
		return fmt.Errorf("it is %s with %d of %d succeeded", w.GetPhase(), w.GetSucceeded(), w.GetTotal())
	}
	return nil
}
