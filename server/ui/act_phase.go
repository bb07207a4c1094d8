package ui

import (
	"fmt"
	"net/url"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/server/ui/internal/display"
)

// phaseQuestion returns the confirmation page for setting a machine's phase. It does not
// check the transition; the API refuses invalid ones.
func (v *visit) phaseQuestion(form url.Values) (actBody, error) {
	b := actBody{Kind: "phase", Form: form}
	var err error
	if b.Machine, err = v.theMachine(); err != nil {
		return b, err
	}
	id, from := b.Machine.GetMachineId(), b.Machine.GetStatus().GetPhase()
	b.Back = display.MachinePath(id)
	for p := holdfastv1.MachineStatus_READY; p <= holdfastv1.MachineStatus_RETIRED; p++ {
		if p != from && p != holdfastv1.MachineStatus_PROVISIONING { // set by runs only
			b.Phases = append(b.Phases, p)
		}
	}
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

func (d *dashboard) askPhase(v *visit) error {
	b, err := v.phaseQuestion(v.r.URL.Query())
	if err != nil {
		return err
	}
	return v.ask("Set the phase of "+b.Machine.GetMachineId(), "machines", b, nil)
}

func (d *dashboard) setPhase(v *visit) error {
	form, err := v.form()
	if err != nil {
		return err
	}
	b, err := v.phaseQuestion(form)
	if err != nil {
		return err
	}
	if err = b.typed(); err == nil && b.Submit == "" {
		err = status.Errorf(codes.InvalidArgument, "phase: %q is not a phase", form.Get("phase"))
	}
	if err == nil {
		phase := holdfastv1.MachineStatus_Phase(holdfastv1.MachineStatus_Phase_value[form.Get("phase")])
		_, err = v.write.machines.SetMachinePhase(v.ctx, &holdfastv1.SetMachinePhaseRequest{
			MachineId: b.Machine.GetMachineId(),
			Phase:     phase,
			Comment:   form.Get("comment"),
		})
	}
	if err != nil {
		return v.ask("Set the phase of "+b.Machine.GetMachineId(), "machines", b, err)
	}
	return v.done(b.Back)
}

// approveQuestion returns the confirmation page for approving a discovered node.
func (v *visit) approveQuestion(form url.Values) (actBody, error) {
	b := actBody{Kind: "approve", Form: form, Submit: "Approve"}
	var err error
	if b.Machine, err = v.theMachine(); err != nil {
		return b, err
	}
	b.Back = display.MachinePath(b.Machine.GetMachineId())
	b.Happens = []string{"The node becomes pending: when it boots from the network, its installation can start."}
	plans, err := v.read.plans.ListPlans(v.ctx, &holdfastv1.ListPlansRequest{PageSize: pageSize})
	b.Plans = plans.GetPlans()
	return b, err
}

func (d *dashboard) askApprove(v *visit) error {
	b, err := v.approveQuestion(v.r.URL.Query())
	if err != nil {
		return err
	}
	return v.ask("Approve "+b.Machine.GetMachineId(), "machines", b, nil)
}

// approve sets the workflow before it approves the node, because a pending node can be
// installed at once.
func (d *dashboard) approve(v *visit) error {
	form, err := v.form()
	if err != nil {
		return err
	}
	b, err := v.approveQuestion(form)
	if err != nil {
		return err
	}
	id := b.Machine.GetMachineId()
	if w := form.Get("workflow"); w != "" {
		_, err = v.write.nodes.UpdateNode(v.ctx, &holdfastv1.UpdateNodeRequest{
			Id:    id,
			Node:  &holdfastv1.NodeRecord{WorkflowId: w},
			Paths: []string{"workflow_id"},
		})
	}
	if err == nil {
		_, err = v.write.nodes.TransitionNode(v.ctx, &holdfastv1.TransitionNodeRequest{
			Id:      id,
			State:   holdfastv1.Node_PENDING,
			Comment: form.Get("comment"),
		})
	}
	if err != nil {
		return v.ask("Approve "+id, "machines", b, err)
	}
	return v.done(b.Back)
}
