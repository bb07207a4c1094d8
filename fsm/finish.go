package fsm

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// nodeDuring returns the node state that a run of a plan means, if it means one.
func nodeDuring(p *holdfastv1.Plan) holdfastv1.Node_State {
	for _, s := range p.GetSteps() {
		if s.GetRepave() != nil {
			return holdfastv1.Node_INSTALLING
		}
	}
	return holdfastv1.Node_NODE_STATE_UNSPECIFIED
}

// finishRun ends a run and frees its machine. From here on the run never changes, but for the form
// its log is kept in.
func (t *tx) finishRun(run *holdfastv1.Run, phase holdfastv1.Run_Phase, failure *holdfastv1.RunError) {
	run.Phase, run.FinishedAt, run.Error = phase, t.now, failure
	run.WaitingFor, run.WaitingSince, run.Deadline, run.NextActionAt = "", nil, nil, nil
	msg := "run " + strings.ToLower(phase.String())
	if failure != nil {
		msg += ": " + failure.GetMessage()
	} else {
		run.CurrentStep = ""
	}
	t.putRun(run, msg)
	t.noteOutcome(run)
	if run.GetObserved() {
		t.endInstallLeases(run.GetRunId())
	}
	t.closeInstall(run)

	m, ok := t.machines.get(run.GetMachineId())
	if !ok || m.GetStatus().GetActiveRunId() != run.GetRunId() {
		return
	}
	m.Status.ActiveRunId = ""
	c := change{by: t.runTrigger(), run: run.GetRunId(), comment: msg}
	t.noteProved(m, run)
	switch {
	case leavesAlone(run):
		c.node = t.nodeAfterLook(m, run)
		t.movePhase(m, run.GetMachinePhaseBefore(), c)
	case phase == holdfastv1.Run_SUCCEEDED:
		t.runSucceeded(m, run, c)
	case phase == holdfastv1.Run_FAILED && run.GetPrincipal() == recoverer:
		// Nobody has asked for it, and it does nothing to what the machine does: that goes on. But
		// somebody has to come.
		t.observe(m, &holdfastv1.Condition{Type: condNeedsIntervention, Status: true, Reason: interventionReason(failure)})
		t.movePhase(m, run.GetMachinePhaseBefore(), c)
	case phase == holdfastv1.Run_FAILED:
		t.observe(m, &holdfastv1.Condition{Type: condNeedsIntervention, Status: true, Reason: interventionReason(failure)})
		if c.node = nodeAfterFailure(m, run); c.node == holdfastv1.Node_INSTALL_FAILED {
			c.metadata = map[string]string{"error": failure.GetMessage(), "attempt": fmt.Sprint(failure.GetAttempt())}
			if t.has(Level2) {
				noteFailedInstall(m, failure.GetAttempt(), failure.GetMessage())
			}
		}
		t.movePhase(m, holdfastv1.MachineStatus_MAINTENANCE, c)
	default:
		// A person canceled it and knows. What an earlier failure asked for stays.
		if !condition(m, condNeedsIntervention).GetStatus() {
			t.observe(m, &holdfastv1.Condition{Type: condNeedsIntervention, Reason: "Canceled"})
		}
		if m.GetStatus().GetNodeState() == holdfastv1.Node_INSTALLING && installed(run) {
			c.node = holdfastv1.Node_INSTALLED
		}
		t.movePhase(m, holdfastv1.MachineStatus_MAINTENANCE, c)
	}
	t.putMachine(m)
}

// noteProved takes over what the steps of a run have proved of the machine, however the run has
// ended: a node that was drained stays so, and a disk that was written has the new image and
// nothing of a cluster on it, when the step after it fails.
func (t *tx) noteProved(m *holdfastv1.Machine, run *holdfastv1.Run) {
	for _, s := range run.GetSteps() {
		if s.GetState() != holdfastv1.StepStatus_SUCCEEDED {
			continue
		}
		switch {
		case Drains(s) && t.has(Level2) && Skipped(s): // by level 1 no step is skipped
		case Drains(s):
			t.observe(m, &holdfastv1.Condition{Type: condDrained, Status: true, Reason: "Drained", Message: "by step " + s.GetName()})
		case s.GetName() == "uncordon-node":
			t.setCondition(m, condDrained, false, "Uncordoned")
		case s.GetKind() == "repave":
			t.setCondition(m, condDrained, false, "Repaved")
			t.setCondition(m, condInCluster, false, "Repaved")
			m.Status.ClusterRef = ""
			t.observe(m, &holdfastv1.Condition{Type: condProvisioned, Status: true, Reason: "Repaved"})
		case s.GetKind() == "join": // workloads may come from now on, also while it is not verified
			t.setCondition(m, condDrained, false, "Joined")
			t.observe(m, &holdfastv1.Condition{Type: condInCluster, Status: true, Reason: "Joined"})
			if t.has(Level2) {
				m.Status.ClusterRef = t.clusterOf(m, run, s)
			}
		}
	}
}

// clusterOf returns the cluster that a step of a run has joined a machine to: the step names it, or
// the run, or the machine.
func (t *tx) clusterOf(m *holdfastv1.Machine, run *holdfastv1.Run, step *holdfastv1.StepStatus) string {
	plan, _ := t.plan(run.GetPlanId())
	for _, s := range plan.GetSteps() {
		if s.GetName() == step.GetName() {
			return ClusterRef(m, s.GetJoin().GetClusterRef(), run.GetParams())
		}
	}
	return ClusterRef(m, "", run.GetParams())
}

// ClusterRef returns the cluster that a step means: its own, else the parameter cluster_ref, else
// the machine's, else "default".
func ClusterRef(m *holdfastv1.Machine, own string, params map[string]string) string {
	return cmp.Or(own, params["cluster_ref"], m.GetSpec().GetTargetClusterRef(), "default")
}

// recoverer is who asks for the runs that nobody has asked for: the leader itself.
const recoverer = "recovery"

// leavesAlone reports whether a run does nothing to what the machine does: it is afterwards what it
// was, also when the run has failed. It looks, or it changes what is beside the machine: a light, a
// log, a virtual drive.
func leavesAlone(run *holdfastv1.Run) bool {
	for _, s := range run.GetSteps() {
		switch s.GetKind() {
		case "inspect", "inventory", "event_log", "clear_event_log", "identify", "media", kindConsole:
		default:
			return false
		}
	}
	return len(run.GetSteps()) > 0
}

func interventionReason(failure *holdfastv1.RunError) string {
	reason := failure.GetReason()
	if failure.GetErrorClass() == "auth" {
		reason = "AuthFailed"
	}
	if failure.GetStep() != "" {
		reason += ": " + failure.GetStep()
	}
	if msg := failure.GetMessage(); msg != "" {
		reason = fmt.Sprintf("%s: %.200s", reason, msg)
	}
	return strings.ToValidUTF8(reason, "")
}

// nodeAfterFailure reports what a failed run left on the disk: a failed install, when it was the
// install that failed.
func nodeAfterFailure(m *holdfastv1.Machine, run *holdfastv1.Run) holdfastv1.Node_State {
	if m.GetStatus().GetNodeState() != holdfastv1.Node_INSTALLING {
		return holdfastv1.Node_NODE_STATE_UNSPECIFIED
	}
	if installed(run) {
		return holdfastv1.Node_INSTALLED
	}
	return holdfastv1.Node_INSTALL_FAILED
}

// installed reports whether a run has written the disk.
func installed(run *holdfastv1.Run) bool {
	return slices.ContainsFunc(run.GetSteps(), func(s *holdfastv1.StepStatus) bool {
		return s.GetKind() == "repave" && s.GetState() == holdfastv1.StepStatus_SUCCEEDED
	})
}

// runSucceeded moves the machine to where its steps have brought it (docs/clients.md, 002: "Phase
// after success").
func (t *tx) runSucceeded(m *holdfastv1.Machine, run *holdfastv1.Run, c change) {
	done := map[string]bool{}
	for _, s := range run.GetSteps() {
		done[s.GetKind()] = true
	}
	phase := run.GetMachinePhaseBefore()
	if done["repave"] {
		phase, c.node = holdfastv1.MachineStatus_READY, holdfastv1.Node_INSTALLED
		t.hostInstalled(m, run) // also where an installer has reported it: nobody made an attempt
	}
	if done["join"] { // and verified, where the plan says so: every step has succeeded
		phase, c.node = holdfastv1.MachineStatus_IN_SERVICE, holdfastv1.Node_NODE_STATE_UNSPECIFIED
	}
	if done["rma"] || run.GetType() == "RMA" {
		phase = holdfastv1.MachineStatus_RMA
		t.setCondition(m, condInCluster, false, "RMA")
		m.Status.ClusterRef = ""
	}
	if !t.has(Level2) || m.GetStatus().GetNodeState() != holdfastv1.Node_INSTALL_FAILED || done["repave"] || phase != holdfastv1.MachineStatus_MAINTENANCE {
		t.setCondition(m, condNeedsIntervention, false, "RunSucceeded") // the disk of a failed install is as it was
	}
	t.movePhase(m, phase, c)
}
