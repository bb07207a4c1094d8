package failpoint

import (
	"context"
	"errors"
	"fmt"

	"github.com/holdfast-metal/holdfast/internal/filter"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/test/lab"
)

// driveWave returns a function that starts a wave and checks its end. The machine at position busy
// has an active run, so the wave cannot start one on it.
func driveWave(name string) func(context.Context, *lab.Lab) error {
	return func(ctx context.Context, l *lab.Lab) error {
		const machines, busy = 4, 2
		req := &holdfastv1.StartWaveRequest{
			RequestId: "fp-wave-" + name, PlanId: planWave, MaxParallel: 2, MaxFailures: 1,
		}
		for i := range machines {
			req.MachineIds = append(req.MachineIds, fmt.Sprintf("fp-%s-%d", name, i))
		}
		if err := l.Register(ctx, req.GetMachineIds()...); err != nil {
			return err
		}
		other, err := l.Start(ctx, req.GetMachineIds()[busy], planSleep)
		if err != nil {
			return err
		}
		if _, err := l.Client.Waves().StartWave(ctx, req); err != nil {
			return fmt.Errorf("start wave %s: %w", req.GetRequestId(), err)
		}
		var wave *holdfastv1.Wave
		if err := lab.Until(ctx, "the end of wave "+req.GetRequestId(), func() bool {
			wave, err = l.Client.Waves().GetWave(ctx, &holdfastv1.GetWaveRequest{WaveId: req.GetRequestId()})
			return err == nil && wave.GetFinishedAt() != nil
		}); err != nil {
			return fmt.Errorf("%w; it is %v", err, wave)
		}
		if _, err := l.Client.Runs().CancelRun(ctx, &holdfastv1.CancelRunRequest{RunId: other.GetRunId()}); err != nil {
			return fmt.Errorf("cancel run %s: %w", other.GetRunId(), err)
		}
		return checkWave(ctx, l, wave, req.GetMachineIds()[busy])
	}
}

// checkWave compares a wave with its runs.
func checkWave(ctx context.Context, l *lab.Lab, wave *holdfastv1.Wave, busy string) error {
	list, err := l.Client.Runs().ListRuns(ctx, &holdfastv1.ListRunsRequest{
		Filter: filter.Equals("request_id", wave.GetWaveId()), PageSize: 1000,
	})
	if err != nil {
		return fmt.Errorf("list the runs of wave %s: %w", wave.GetWaveId(), err)
	}
	return waveProblems(wave, list.GetRuns(), busy)
}

// waveProblems returns an error unless each machine of a wave has one run of the wave, which
// succeeded, and the busy one was refused and has none.
func waveProblems(wave *holdfastv1.Wave, all []*holdfastv1.Run, busy string) error {
	var problems []error
	runs := map[string][]string{}
	for _, r := range all {
		runs[r.GetMachineId()] = append(runs[r.GetMachineId()], fmt.Sprint(r.GetRunId(), " ", r.GetPhase()))
	}
	for _, m := range wave.GetMachines() {
		want := fmt.Sprint([]string{m.GetRunId() + " SUCCEEDED"})
		if m.GetMachineId() == busy {
			want = "[]"
		}
		if got := fmt.Sprint(runs[m.GetMachineId()]); got != want {
			problems = append(problems, fmt.Errorf("runs of %s in wave %s: got %s, want %s; its row is %v",
				m.GetMachineId(), wave.GetWaveId(), got, want, m))
		}
	}
	if n := int32(len(wave.GetMachines())); wave.GetPhase() != holdfastv1.Wave_FAILED || wave.GetRefused() != 1 ||
		wave.GetSucceeded() != n-1 || wave.GetTotal() != n {
		problems = append(problems, fmt.Errorf("got wave %v, want FAILED with %d succeeded and 1 refused", wave, n-1))
	}
	return errors.Join(problems...)
}
