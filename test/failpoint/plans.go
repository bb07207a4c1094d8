package failpoint

import (
	"context"
	"fmt"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/test/lab"
	"github.com/holdfast-metal/holdfast/test/robustness/workload"
)

// The plans of scenarios, each started on the machine of the same name.
const (
	planLong  = "fp-long"  // waits long enough that the wait is recorded
	planSleep = "fp-sleep" // waits until it is canceled
	planFail  = "fp-fail"  // fails and waits for its retry
	planWave  = "fp-wave"  // is short
)

// prepare creates the machines and plans of the scenarios.
func prepare(ctx context.Context, l *lab.Lab) error {
	failing := lab.Script("fail", "exit 3\n")
	failing.MaxRetries = new(int32)
	*failing.MaxRetries = 50
	for id, s := range map[string]*holdfastv1.Step{
		planLong: lab.Script("s", "sleep 2.5\n"), planSleep: lab.Script("s", "sleep 300\n"), planFail: failing,
		planWave: lab.Script("s", "sleep 0.2\n"),
	} {
		if err := l.Plan(ctx, id, s); err != nil {
			return err
		}
		if err := l.Register(ctx, id); err != nil {
			return err
		}
	}
	return nil
}

func long(ctx context.Context, l *lab.Lab) error {
	_, err := l.Start(ctx, planLong, planLong)
	return err
}

func cancelWithin(ctx context.Context, l *lab.Lab) error {
	return cancelWhen(ctx, l, planSleep, func(s *holdfastv1.StepStatus) bool { return len(s.GetAttempts()) == 1 })
}

func cancelBetween(ctx context.Context, l *lab.Lab) error {
	return cancelWhen(ctx, l, planFail, func(s *holdfastv1.StepStatus) bool {
		n := len(s.GetAttempts())
		return n > 0 && s.GetAttempts()[n-1].GetOutcome() == holdfastv1.Attempt_FAILED
	})
}

// cancelWhen starts a run and cancels it as soon as its step is in the wanted state.
func cancelWhen(ctx context.Context, l *lab.Lab, plan string, when func(*holdfastv1.StepStatus) bool) error {
	run, err := l.Start(ctx, plan, plan)
	if err != nil {
		return err
	}
	err = lab.Until(ctx, plan+" to be where it is canceled", func() bool {
		now, err := l.Client.Runs().GetRun(ctx, &holdfastv1.GetRunRequest{RunId: run.GetRunId()})
		return err == nil && (workload.SeenRun(now).Ended || when(now.GetSteps()[0]))
	})
	if err != nil {
		return err
	}
	if _, err := l.Client.Runs().CancelRun(
		ctx, &holdfastv1.CancelRunRequest{RunId: run.GetRunId(), Reason: "failpoint"},
	); err != nil {
		return fmt.Errorf("cancel run %s: %w", run.GetRunId(), err)
	}
	return nil
}
