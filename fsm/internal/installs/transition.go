package installs

import (
	"cmp"
	"fmt"

	"github.com/holdfast-metal/holdfast/fsm/internal/core"
	"github.com/holdfast-metal/holdfast/fsm/internal/fleet"
	"github.com/holdfast-metal/holdfast/fsm/internal/lex"
	"github.com/holdfast-metal/holdfast/fsm/internal/lifecycle"
	"github.com/holdfast-metal/holdfast/fsm/internal/refusal"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// TransitionNode moves a node by hand. It refuses a node with an executed run. An observed
// run ends with the transition.
func TransitionNode(t *core.Tx, c *internalv1.TransitionNode) (*holdfastv1.Machine, *refusal.Error) {
	m, ok := fleet.EditNode(t, c.GetId())
	if !ok {
		return nil, fleet.NodeNotFound(c.GetId())
	}
	if err := lifecycle.CheckNode(m, c.GetState(), c.GetForce()); err != nil {
		return nil, err
	}
	run, err := observedRun(t, m)
	if err != nil {
		return nil, err
	}
	comment := lex.Clip(c.GetComment(), core.MaxNote)
	switch {
	case c.GetState() == holdfastv1.Node_INSTALLING:
		if err := checkObservable(t, m, c.GetRunId()); err != nil {
			return nil, err
		}
		why := cmp.Or(comment, "an operator says that the install has begun")
		return fleet.Whole(t.State, beginObserved(t, m, c.GetRunId(), why)), nil
	case run != nil && c.GetState() == holdfastv1.Node_INSTALLED:
		m = observedDone(t, m, run, cmp.Or(comment, "an operator says that the install is complete"))
	case run != nil && c.GetState() == holdfastv1.Node_INSTALL_FAILED:
		m = observedFailed(t, m, run, cmp.Or(comment, "an operator says that the install has failed"))
	default:
		if run != nil {
			m = observedCanceled(t, m, run,
				fmt.Sprintf("the node was moved to %s", lifecycle.NodeStateName(c.GetState())))
		}
		phase := lifecycle.PhaseOf(c.GetState(), m)
		if phase != m.GetStatus().GetPhase() &&
			(phase == holdfastv1.MachineStatus_READY || phase == holdfastv1.MachineStatus_IN_SERVICE) {
			fleet.SetCondition(t, m, lifecycle.NeedsIntervention, false, "Cleared")
			fleet.SetCondition(t, m, lifecycle.Canceled, false, "Cleared")
		}
		fleet.MovePhase(t, m, phase, fleet.Change{By: fleet.ByOperator, Comment: comment, Node: c.GetState()})
	}
	if c.GetState() == holdfastv1.Node_PENDING {
		m.Node.ApprovedAt = t.Now
	}
	if c.GetForce() {
		m.Node.InstallAttempts, m.Node.LastInstallError, m.Node.InstallProgress = 0, "", 0
	}
	fleet.PutMachine(t, m)
	return fleet.Whole(t.State, m), nil
}
