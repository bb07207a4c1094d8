package ui

import (
	"fmt"
	"net/url"
	"slices"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/server/ui/internal/bulk"
	"github.com/holdfast-metal/holdfast/server/ui/internal/display"
)

// phaseQuestion returns the confirmation page for setting a machine's phase. It does not
// check the transition; the API refuses invalid ones.
func phaseQuestion(v *visit, form url.Values) (actBody, error) {
	b := actBody{Kind: "phase", Form: form}
	var err error
	if b.Machine, err = v.theMachine(); err != nil {
		return b, err
	}
	id, from := b.Machine.GetMachineId(), b.Machine.GetStatus().GetPhase()
	b.Subject, b.Back = id, display.MachinePath(id)
	b.Phases = slices.DeleteFunc(bulk.Phases(), func(p holdfastv1.MachineStatus_Phase) bool { return p == from })
	to, ok := holdfastv1.MachineStatus_Phase_value[form.Get("phase")]
	if !ok || to == 0 {
		return b, nil
	}
	b.Submit = "Set phase to " + form.Get("phase")
	b.Happens = append(b.Happens,
		fmt.Sprintf("The phase of %s changes from %s to %s. The hardware is not touched.", id, from, form.Get("phase")))
	switch holdfastv1.MachineStatus_Phase(to) {
	case holdfastv1.MachineStatus_RETIRED:
		b.Grave, b.Typed = true, id
		b.Happens = append(b.Happens, "The machine leaves the inventory permanently. This cannot be undone, "+
			"and no further runs are allowed.")
	case holdfastv1.MachineStatus_RMA:
		b.Grave, b.Typed = true, id
		b.Happens = append(b.Happens,
			"The machine stays out of service for return or replacement until its phase is set again.")
	case holdfastv1.MachineStatus_READY, holdfastv1.MachineStatus_IN_SERVICE:
		b.Happens = append(b.Happens, "The condition NeedsIntervention is cleared if it is set.")
	}
	if run := b.Machine.GetStatus().GetActiveRunId(); run != "" {
		b.Happens = append(b.Happens,
			id+" has the active run "+run+": this request is refused until that run has ended.")
	}
	return b, nil
}

func setPhase(v *visit, b actBody) (string, error) {
	if b.Submit == "" {
		return "", status.Errorf(codes.InvalidArgument, "phase: %q is not a phase", b.Value("phase"))
	}
	_, err := v.write.machines.SetMachinePhase(v.ctx, &holdfastv1.SetMachinePhaseRequest{
		MachineId: b.Machine.GetMachineId(),
		Phase:     holdfastv1.MachineStatus_Phase(holdfastv1.MachineStatus_Phase_value[b.Value("phase")]),
		Comment:   b.Value("comment"),
	})
	return b.Back, err
}

// approveQuestion returns the confirmation page for approving a discovered node.
func approveQuestion(v *visit, form url.Values) (actBody, error) {
	b := actBody{Kind: "approve", Form: form, Submit: "Approve"}
	var err error
	if b.Machine, err = v.theMachine(); err != nil {
		return b, err
	}
	id := b.Machine.GetMachineId()
	b.Back = display.MachinePath(id)
	b.Happens = []string{"The node becomes pending: when it boots from the network, its installation can start."}
	if b.Plans, err = v.allPlans(); err != nil {
		return b, err
	}
	b.Subject = id
	return b, nil
}

// approve sets the workflow before it approves the node, because a pending node can be
// installed at once.
func approve(v *visit, b actBody) (string, error) {
	id := b.Machine.GetMachineId()
	if w := b.Value("workflow"); w != "" {
		if _, err := v.write.nodes.UpdateNode(v.ctx, &holdfastv1.UpdateNodeRequest{
			Id:    id,
			Node:  &holdfastv1.NodeRecord{WorkflowId: w},
			Paths: []string{"workflow_id"},
		}); err != nil {
			return "", err
		}
	}
	_, err := v.write.nodes.TransitionNode(v.ctx, &holdfastv1.TransitionNodeRequest{
		Id:      id,
		State:   holdfastv1.Node_PENDING,
		Comment: b.Value("comment"),
	})
	return b.Back, err
}
