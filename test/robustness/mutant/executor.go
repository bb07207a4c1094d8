package mutant

import (
	"context"
	"fmt"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/test/failpoint"
	"github.com/holdfast-metal/holdfast/test/lab"
	"github.com/holdfast-metal/holdfast/test/robustness/workload"
)

// dieAfterEffect kills the leader after it has pressed a button and before it reports it.
func dieAfterEffect() Scenario {
	return Scenario{Name: "the leader dies right after an effect",
		Run: func(ctx context.Context, e Env) ([]error, error) {
			return e.die(ctx, "effect-done", "reboot", lab.Step("restart", &holdfastv1.Reboot{Mode: "bmc", Force: true}))
		}}
}

// dieWhileLogging kills the leader after it has committed the first part of a log.
func dieWhileLogging() Scenario {
	return Scenario{Name: "the leader dies while a command prints",
		Run: func(ctx context.Context, e Env) ([]error, error) {
			return e.die(ctx, "logs-committed", talkPlan, lab.Script("talk", workload.TalkScript))
		}}
}

// adoptOutput kills a leader right after the first lines of a command are recorded. A cluster
// cannot be made to do that each time.
func adoptOutput() unitTest {
	return unitTest{"executor/runs", "TestOutputGoesOnWhereTheRecordEnds"}
}

// talkPlan is the id of the plan whose output package check knows.
const talkPlan = "rb-talk"

// die makes one run, during which a peer dies at a failpoint.
func (e Env) die(ctx context.Context, point, plan string, step *holdfastv1.Step) ([]error, error) {
	b, err := e.open(ctx, point)
	if err != nil {
		return nil, err
	}
	defer func() { _ = b.close() }()
	if err := b.points.Arm(point); err != nil {
		return nil, err
	}
	run, err := b.run(ctx, plan, step)
	if err != nil {
		return nil, err
	}
	if err := b.dies(ctx, point); err != nil {
		return nil, err
	}
	if err := b.over(ctx, run); err != nil {
		return nil, err
	}
	return b.truth(ctx, machineID)
}

// stoppedExecutor stops the leader's process at a point before an effect, lets the next
// leader finish the run, and resumes the first one. Its attempt does not notice the end of
// its term, because that would mostly be faster than the effect and hide the missing rule.
func stoppedExecutor(point string) Scenario {
	return Scenario{Name: "the leader is stopped at " + point + " and resumed after the next one's effect",
		Provoke: []Patch{
			{"executor/fence/fence.go", "providers.WithNotAfter(ctx, notAfter)",
				"providers.WithNotAfter(context.WithoutCancel(ctx), notAfter)"},
		}, Run: func(ctx context.Context, e Env) ([]error, error) {
			for round := range 2 {
				round := Env{Binary: e.Binary, Dir: fmt.Sprintf("%s/round-%d", e.Dir, round)}
				s, err := failpoint.NewSwitches(round.Dir+"/failpoints", point)
				if err != nil {
					return nil, err
				}
				if found, err := round.stopExecutor(ctx, s, point); err != nil || len(found) > 0 {
					return found, err
				}
			}
			return nil, nil
		}}
}

func (e Env) stopExecutor(ctx context.Context, s failpoint.Switches, point string) ([]error, error) {
	b, err := e.openWith(ctx, s, lab.Config{Env: []string{s.StopEnvironment(point)}})
	if err != nil {
		return nil, err
	}
	defer func() { _ = b.close() }()
	leader, err := b.Leader(ctx)
	if err != nil {
		return nil, err
	}
	if err := s.Arm(point); err != nil {
		return nil, err
	}
	run, err := b.run(ctx, "reboot", lab.Step("restart", &holdfastv1.Reboot{Mode: "bmc", Force: true}))
	if err != nil {
		return nil, err
	}
	if err := lab.Until(ctx, "the leader to stop at "+point, func() bool { return s.Fired(point) }); err != nil {
		return nil, err
	}
	if err := leader.Pause(); err != nil { // the process is stopped already: this informs the lab
		return nil, err
	}
	err = b.over(ctx, run)
	if rerr := leader.Resume(); err == nil {
		err = rerr
	}
	if err != nil {
		return nil, err
	}
	return b.truth(ctx, machineID)
}

// staleCommands sends commands of a replaced leader to the state. While its other
// safeguards hold, no cluster lets such a command reach the state, so the state is tested
// directly.
func staleCommands() unitTest { return unitTest{"fsm", "TestStaleEpochs"} }
