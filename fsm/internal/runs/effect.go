package runs

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/holdfast-metal/holdfast/fsm/internal/core"
	"github.com/holdfast-metal/holdfast/fsm/internal/fleet"
	"github.com/holdfast-metal/holdfast/fsm/internal/lifecycle"
	"github.com/holdfast-metal/holdfast/fsm/internal/schema"
	"github.com/holdfast-metal/holdfast/fsm/internal/sessions"
	"github.com/holdfast-metal/holdfast/fsm/internal/shallow"
	"github.com/holdfast-metal/holdfast/proto/holdfast/stepkind"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// noteEvidence records the conditions that the succeeded steps are evidence of, for any outcome of
// the run. A drained node stays drained. A written disk has the new image and is not in a
// cluster, even if the next step fails.
func noteEvidence(t *core.Tx, m *holdfastv1.Machine, run *holdfastv1.Run) {
	for _, s := range run.GetSteps() {
		if s.GetState() != holdfastv1.StepStatus_SUCCEEDED {
			continue
		}
		switch {
		case Drains(s) && Skipped(s):
		case Drains(s):
			fleet.Observe(t, m, &holdfastv1.Condition{
				Type: lifecycle.Drained, Status: true, Reason: "Drained", Message: "by step " + s.GetName(),
			})
		case s.GetName() == "uncordon-node":
			fleet.SetCondition(t, m, lifecycle.Drained, false, "Uncordoned")
		case s.GetKind() == "repave":
			fleet.SetCondition(t, m, lifecycle.Drained, false, "Repaved")
			fleet.SetCondition(t, m, lifecycle.InCluster, false, "Repaved")
			m.Status.ClusterRef = ""
			fleet.Observe(t, m, &holdfastv1.Condition{Type: lifecycle.Provisioned, Status: true, Reason: "Repaved"})
		case s.GetKind() == "join": // workloads may arrive now, even before the node is verified
			fleet.SetCondition(t, m, lifecycle.Drained, false, "Joined")
			fleet.Observe(t, m, &holdfastv1.Condition{Type: lifecycle.InCluster, Status: true, Reason: "Joined"})
			m.Status.ClusterRef = clusterOf(t, m, run, s)
		}
	}
}

// powerFresh is how long a power that a run has seen is valid, if nothing confirms it.
const powerFresh = 2 * time.Hour

// notePower records the power that a succeeded attempt has seen after its press, so that readers
// need not wait for the next poll.
func notePower(t *core.Tx, run *holdfastv1.Run, step *holdfastv1.StepStatus, a *holdfastv1.Attempt) {
	seen := a.GetEvidenceAfter()["power"]
	if !stepkind.Named(step.GetKind()).GetPresses() || seen != "on" && seen != "off" {
		return
	}
	m, ok := fleet.Edit(t, run.GetMachineId())
	known := lifecycle.Condition(m, lifecycle.PoweredOn)
	if !ok || known != nil && !known.GetUnknown() && known.GetStatus() == (seen == "on") {
		return // the polls confirm it
	}
	fleet.Observe(t, m, &holdfastv1.Condition{
		Type: lifecycle.PoweredOn, Status: seen == "on", Reason: "ByRun", ObservedAt: t.Now,
		Message:    run.GetRunId() + " (" + cmp.Or(run.GetType(), run.GetPlanId()) + ")",
		FreshUntil: timestamppb.New(t.Now.AsTime().Add(powerFresh)),
	})
	fleet.PutMachine(t, m)
}

// clusterOf returns the cluster that a step of a run has joined: the step's, else the run's,
// else the machine's.
func clusterOf(t *core.Tx, m *holdfastv1.Machine, run *holdfastv1.Run, step *holdfastv1.StepStatus) string {
	plan, _ := t.Plans.Get(run.GetPlanId())
	for _, s := range plan.GetSteps() {
		if s.GetName() == step.GetName() {
			return ClusterRef(m, s.GetJoin().GetClusterRef(), run.GetParams())
		}
	}
	return ClusterRef(m, "", run.GetParams())
}

// leavesAlone reports whether a run leaves the machine's state unchanged, even if it fails.
// Such a run reads, or changes something outside of the host: a light, a log, a virtual
// drive.
func leavesAlone(run *holdfastv1.Run) bool {
	changes := func(s *holdfastv1.StepStatus) bool { return !stepkind.Named(s.GetKind()).GetKeepsPhase() }
	return len(run.GetSteps()) > 0 && !slices.ContainsFunc(run.GetSteps(), changes)
}

// nodeAfterReading returns the node state to restore after a run that leaves its machine
// unchanged, or unspecified if the phase determines it. After an inspection, a failed install
// still needs an operator.
func nodeAfterReading(t *core.Tx, m *holdfastv1.Machine, run *holdfastv1.Run) holdfastv1.Node_State {
	if run.GetMachinePhaseBefore() != holdfastv1.MachineStatus_MAINTENANCE ||
		m.GetStatus().GetNodeState() != holdfastv1.Node_PENDING {
		return holdfastv1.Node_NODE_STATE_UNSPECIFIED
	}
	for e := range t.History.Descend(m.GetMachineId()+"/", schema.HistoryKey(m.GetMachineId(), ^uint64(0))) {
		switch {
		case e.GetAt().AsTime().Before(run.GetCreatedAt().AsTime()):
			return holdfastv1.Node_NODE_STATE_UNSPECIFIED
		case e.GetFacet() == "node" && e.GetRunId() == run.GetRunId() &&
			e.GetFrom() == holdfastv1.Node_INSTALL_FAILED.String():
			return holdfastv1.Node_INSTALL_FAILED
		}
	}
	return holdfastv1.Node_NODE_STATE_UNSPECIFIED
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

// nodeAfterFailure returns the node state after a failed run: a failed install, unless the run
// has written the disk.
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

// runSucceeded moves the machine to the phase its steps have reached (docs/clients.md, 002:
// "Phase after success").
func runSucceeded(t *core.Tx, m *holdfastv1.Machine, run *holdfastv1.Run, c fleet.Change) {
	done := map[string]bool{}
	for _, s := range run.GetSteps() {
		done[s.GetKind()] = true
	}
	phase := run.GetMachinePhaseBefore()
	if done["repave"] {
		phase, c.Node = holdfastv1.MachineStatus_READY, holdfastv1.Node_INSTALLED
		sessions.HostInstalled(t, m, run) // needed if an installer reported it, without an attempt
	}
	if done["join"] { // all steps have succeeded, including any verification
		phase, c.Node = holdfastv1.MachineStatus_IN_SERVICE, holdfastv1.Node_NODE_STATE_UNSPECIFIED
	}
	if done["rma"] || run.GetType() == "RMA" {
		phase = holdfastv1.MachineStatus_RMA
		fleet.SetCondition(t, m, lifecycle.InCluster, false, "RMA")
		m.Status.ClusterRef = ""
	}
	if m.GetStatus().GetNodeState() != holdfastv1.Node_INSTALL_FAILED || done["repave"] ||
		phase != holdfastv1.MachineStatus_MAINTENANCE {
		// The disk of a failed install is unchanged, so the condition stays.
		fleet.SetCondition(t, m, lifecycle.NeedsIntervention, false, "RunSucceeded")
	}
	if !lifecycle.DiskInDoubt(m) || done["repave"] || done["rma"] {
		fleet.SetCondition(t, m, lifecycle.Canceled, false, "RunSucceeded")
	}
	fleet.MovePhase(t, m, phase, c)
}

// Drains reports whether the success of a step means that the machine's node is drained. Such
// steps are scripts, recognized by name.
func Drains(s *holdfastv1.StepStatus) bool {
	return s.GetName() == "drain-node" || s.GetName() == "drain-check"
}

// EvidenceSkipped is the evidence key for a step that was skipped because its host is dead. Its
// value is the reason.
const EvidenceSkipped = "skipped"

// Skipped reports whether a step succeeded because it was skipped.
func Skipped(s *holdfastv1.StepStatus) bool {
	return lifecycle.LastAttempt(s).GetEvidenceAfter()[EvidenceSkipped] != ""
}

// EvidenceDisks is the evidence key for the disks of a machine that is taken out: by which means
// they were erased, or that they were not.
const EvidenceDisks = "disks"

// diskEvidence returns the evidence for the disks of a machine that a run takes out, or "".
func diskEvidence(run *holdfastv1.Run) string {
	for _, s := range run.GetSteps() {
		if text := lifecycle.LastAttempt(s).GetEvidenceAfter()[EvidenceDisks]; text != "" {
			return text
		}
	}
	return ""
}

// EvidenceEndpoint is the evidence key of a step net for the new address of the host.
const EvidenceEndpoint = "ssh_endpoint"

// moveHost records the new address of a host, together with the outcome of the step that
// changed its network, because the next step has to reach it.
func moveHost(t *core.Tx, machine, endpoint string) {
	m, ok := fleet.Edit(t, machine)
	if !ok || m.GetSpec().GetSshEndpoint() == endpoint {
		return
	}
	if m.Spec == nil {
		m.Spec = &holdfastv1.MachineSpec{}
	} else {
		m.Spec = shallow.Spec(m.Spec)
	}
	m.Spec.SshEndpoint = endpoint
	fleet.PutMachine(t, m)
}
