package step

import (
	"context"
	"time"

	"github.com/holdfast-metal/holdfast/executor/task"
	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/providers"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

const (
	stepShutdown = "graceful-shutdown"

	// powerUnknown is the evidence of a power state that cannot be read.
	powerUnknown = "unknown"
)

// takesOut reports whether the run's plan is a built-in one that takes the machine out.
func (a *Attempt) takesOut() bool {
	for _, s := range a.Plan.GetSteps() {
		if s.GetRma() != nil {
			return a.builtIn()
		}
	}
	return false
}

// unlessDead returns the action of a step that shuts the host down. If the host is dead,
// the action is skipped.
func (a *Attempt) unlessDead(how Action) Action {
	if a.Step.GetName() != stepShutdown || !a.takesOut() {
		return how
	}
	do := how.Do
	how.Do = func(ctx context.Context) error {
		if dead, err := a.hostDead(ctx); dead || err != nil {
			return err
		}
		return do(ctx)
	}
	return how
}

// hostDead reports whether the host is dead: it has not answered for the time of
// deadAfter. With force, a host that refuses the login counts as dead too. The reason is
// recorded as evidence, and the step has nothing left to do.
func (a *Attempt) hostDead(ctx context.Context) (bool, error) {
	exec, ok := a.Provider.(providers.RemoteExecutor)
	if !ok {
		return false, nil
	}
	var last error
	since := time.Now()
	err := a.Poll(ctx, answer(host, ""), func(ctx context.Context) (bool, error) {
		_, last = exec.CommandStatus(ctx, a.Machine, a.Op.Token(), 0)
		switch {
		case last == nil, time.Since(since) >= a.deadAfter(ctx):
			return true, nil
		case !passing(last) && (a.flag(false, "force") || providers.ClassOf(last) == providers.Gone):
			return true, nil
		}
		return false, last
	})
	if err != nil || last == nil {
		return false, err
	}
	a.AddEvidence(map[string]string{fsm.EvidenceSkipped: task.Clean(last.Error())})
	a.Message = "skipped: the host does not answer: " + task.Clean(last.Error())
	a.Say("%s", a.Message)
	return true, nil
}

// deadAfter returns how long a host or BMC must not answer before it counts as dead: at
// most half of the attempt's time.
func (a *Attempt) deadAfter(ctx context.Context) time.Duration {
	most := a.Config.DeadAfter
	if end, ok := ctx.Deadline(); ok {
		most = min(most, end.Sub(a.Began)/2)
	}
	return most
}

// powerToTakeOut returns a function that reads the power state of a machine before it is
// taken out. A BMC that does not answer is not an error at this point.
func (a rmaStep) powerToTakeOut(power providers.PowerController) func(context.Context) (map[string]string, error) {
	since := time.Now()
	return func(ctx context.Context) (map[string]string, error) {
		state, err := power.PowerState(ctx, a.Machine)
		if err != nil && passing(err) && time.Since(since) >= min(a.Config.DeadAfter, PrepareTime/2) {
			return map[string]string{evidencePower: powerUnknown}, nil
		}
		return map[string]string{evidencePower: string(state)}, err
	}
}

// beyondReach reports whether a machine is taken out although its power cannot be
// switched off: its BMC has not answered for the time of deadAfter, and its host does not
// answer either or force is set.
func (a rmaStep) beyondReach(
	ctx context.Context, power providers.PowerController, s *holdfastv1.RmaAction,
) (bool, error) {
	var last error
	since := time.Now()
	err := a.Poll(ctx, answer(bmc, ""), func(ctx context.Context) (bool, error) {
		_, last = power.PowerState(ctx, a.Machine)
		return last == nil || time.Since(since) >= a.deadAfter(ctx), last
	})
	if err != nil || last == nil {
		return false, err
	}
	if !a.flag(s.GetForce(), "force") {
		in, ok := a.Provider.(providers.Inspector)
		if !ok {
			return false, nil
		}
		if f, err := in.Inspect(ctx, a.Machine); err == nil && (f.Reachable || f.ReachableUnknown) {
			return false, providers.Errorf(providers.Unsupported, "take out "+a.Machine.GetMachineId(),
				"its BMC does not answer and its host may be up, so its power cannot be switched off: "+
					"repair the BMC or set force: %w", last)
		}
	}
	a.AddEvidence(map[string]string{evidencePower: powerUnknown + ": " + task.Clean(last.Error())})
	a.Say("the power is not switched off: the BMC does not answer: %s", task.Clean(last.Error()))
	return true, nil
}
