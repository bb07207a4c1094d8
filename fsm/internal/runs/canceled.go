package runs

import (
	"fmt"

	"github.com/holdfast-metal/holdfast/fsm/internal/core"
	"github.com/holdfast-metal/holdfast/fsm/internal/fleet"
	"github.com/holdfast-metal/holdfast/fsm/internal/lifecycle"
	"github.com/holdfast-metal/holdfast/fsm/internal/plans"
	"github.com/holdfast-metal/holdfast/fsm/internal/schema"
	"github.com/holdfast-metal/holdfast/proto/holdfast/stepkind"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// noteCanceled records on a machine that its run was canceled after it had begun, and how far the
// run was with the disks: an operator has to decide about the machine.
func noteCanceled(t *core.Tx, m *holdfastv1.Machine, run *holdfastv1.Run) {
	plan, _ := t.Plans.Get(run.GetPlanId())
	reason, at, disks, erases := lifecycle.CanceledHarmless, run.GetCurrentStep(), "", false
	for _, s := range run.GetSteps() {
		if !erasesDisks(plan, run, s) {
			continue
		}
		erases = true
		said := lifecycle.LastAttempt(s).GetEvidenceAfter()[EvidenceDisks]
		switch {
		case len(s.GetAttempts()) == 0:
		case s.GetState() == holdfastv1.StepStatus_SUCCEEDED && s.GetKind() == "repave":
			reason, disks = lifecycle.CanceledErased, fmt.Sprintf("the disk was written by step %s", s.GetName())
		case said != "":
			reason, disks = lifecycle.CanceledErased, said
		case s.GetKind() == "repave":
			reason, disks = lifecycle.CanceledErasing, "the disk may be written in part"+installerSaid(m, run)
		default:
			reason, disks = lifecycle.CanceledErasing, "the disks may be erased in part"
		}
	}
	if disks == "" && erases {
		disks = "no step that erases had begun, so the disks are unchanged"
	}
	message := fmt.Sprintf("step %s of %s", at, run.GetRunId())
	if disks != "" {
		message += ": " + disks
	}
	fleet.Observe(t, m, &holdfastv1.Condition{
		Type: lifecycle.Canceled, Status: true, Reason: reason, Message: message, ObservedAt: t.Now,
	})
}

// erasesDisks reports whether a step of a run erases disks, with the run's parameters.
func erasesDisks(plan *holdfastv1.Plan, run *holdfastv1.Run, s *holdfastv1.StepStatus) bool {
	k := stepkind.Named(s.GetKind())
	if !k.GetInstalls() || !k.GetDestroys() {
		return false
	}
	for _, of := range plan.GetSteps() {
		if of.GetName() == s.GetName() && !run.GetObserved() {
			return plans.StepEffect(of, run.GetParams()).Destroys
		}
	}
	return !k.GetDestroysOnlyWhen()
}

// installerSaid returns the last report of the installer about a run, for a text about the disk.
func installerSaid(m *holdfastv1.Machine, run *holdfastv1.Run) string {
	n := m.GetNode()
	switch {
	case n.GetInstallRunId() != run.GetRunId() || n.GetInstallStatus() == "":
		return ", and no installer has reported"
	case n.GetInstallStatus() == "progress":
		return fmt.Sprintf(", the last report of the installer is %d %%", n.GetInstallProgress())
	}
	return ", the last report of the installer is " + n.GetInstallStatus()
}

// setsAside reports whether a run only cordons, drains or uncordons a node, which its host
// survives.
func setsAside(t *core.Tx, run *holdfastv1.Run) bool {
	plan, ok := t.Plans.Get(run.GetPlanId())
	return ok && plans.OnlySetsAside(plan)
}

// nodeBefore returns the node state from which the start of a run has moved its machine, in one or
// more steps, or the present one if it has not.
func nodeBefore(t *core.Tx, m *holdfastv1.Machine, run *holdfastv1.Run) holdfastv1.Node_State {
	state := m.GetStatus().GetNodeState()
	for e := range t.History.Descend(m.GetMachineId()+"/", schema.HistoryKey(m.GetMachineId(), ^uint64(0))) {
		switch {
		case e.GetAt().AsTime().Before(run.GetCreatedAt().AsTime()):
			return state
		case e.GetFacet() == "node" && e.GetRunId() == run.GetRunId() && e.GetTo() == state.String():
			state = holdfastv1.Node_State(holdfastv1.Node_State_value[e.GetFrom()])
		}
	}
	return state
}
