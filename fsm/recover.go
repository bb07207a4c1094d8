package fsm

import (
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// Recover makes of the state of a peer that has lost its majority the beginning of another cluster: it gets an id of its own, so that old
// peers that come back are no peers of it, and the runs that were active have FAILED, because what the lost peers had
// acknowledged of them may not be on record here. It gives those runs. It is for a peer that does not run; nothing of it goes through a log.
func (f *FSM) Recover(clusterID, why string) ([]*holdfastv1.Run, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.haltErr != nil {
		return nil, f.haltErr
	}
	t := newTx(f, f.state.meta.GetAppliedIndex(), &internalv1.Command{Time: f.state.meta.GetNow(), Principal: "system"})
	ended := t.activeRuns()
	for _, run := range ended {
		t.closeSteps(run, why)
		t.finishRun(run, holdfastv1.Run_FAILED, &holdfastv1.RunError{Reason: reasonRecovered, Message: why, Step: run.GetCurrentStep()})
	}
	t.clearStage()
	t.meta.ClusterId = clusterID
	f.publish()
	return ended, nil
}
