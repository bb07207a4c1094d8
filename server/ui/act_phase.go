package ui

import (
	"fmt"
	"net/url"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// phaseQuestion is what is asked before a machine is moved by hand. Which moves there are is the
// state's to say: it answers when one is refused.
func (v *visit) phaseQuestion(form url.Values) (actBody, error) {
	b := actBody{Kind: "phase", Form: form}
	var err error
	if b.Machine, err = v.theMachine(); err != nil {
		return b, err
	}
	id, from := b.Machine.GetMachineId(), b.Machine.GetStatus().GetPhase()
	b.Back = machinePath(id)
	for p := holdfastv1.MachineStatus_READY; p <= holdfastv1.MachineStatus_RETIRED; p++ {
		if p != from && p != holdfastv1.MachineStatus_PROVISIONING { // that belongs to runs
			b.Phases = append(b.Phases, p)
		}
	}
	to, ok := holdfastv1.MachineStatus_Phase_value[form.Get("phase")]
	if !ok || to == 0 {
		return b, nil
	}
	b.Submit = "Move it to " + form.Get("phase")
	b.Happens = append(b.Happens, fmt.Sprintf("%s goes from %s to %s. No hardware is touched.", id, from, form.Get("phase")))
	switch holdfastv1.MachineStatus_Phase(to) {
	case holdfastv1.MachineStatus_RETIRED:
		b.Grave, b.Typed = true, id
		b.Happens = append(b.Happens, "It is out of the inventory for good: there is no way back, and no run is allowed any more.")
	case holdfastv1.MachineStatus_RMA:
		b.Grave, b.Typed = true, id
		b.Happens = append(b.Happens, "It is out for return or replacement until somebody moves it on.")
	case holdfastv1.MachineStatus_READY, holdfastv1.MachineStatus_IN_SERVICE:
		b.Happens = append(b.Happens, "Its condition NeedsIntervention is cleared, if it has it.")
	}
	if run := b.Machine.GetStatus().GetActiveRunId(); run != "" {
		b.Happens = append(b.Happens, id+" has the active run "+run+": this will be refused until that has ended.")
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
		err = status.Errorf(codes.InvalidArgument, "phase: %q is none", form.Get("phase"))
	}
	if err == nil {
		_, err = v.write.machines.SetMachinePhase(v.ctx, &holdfastv1.SetMachinePhaseRequest{
			MachineId: b.Machine.GetMachineId(), Phase: holdfastv1.MachineStatus_Phase(holdfastv1.MachineStatus_Phase_value[form.Get("phase")]), Comment: form.Get("comment"),
		})
	}
	if err != nil {
		return v.ask("Set the phase of "+b.Machine.GetMachineId(), "machines", b, err)
	}
	return v.done(b.Back)
}

// approveQuestion is what is asked before a discovered node is taken in.
func (v *visit) approveQuestion(form url.Values) (actBody, error) {
	b := actBody{Kind: "approve", Form: form, Submit: "Approve it"}
	var err error
	if b.Machine, err = v.theMachine(); err != nil {
		return b, err
	}
	b.Back = machinePath(b.Machine.GetMachineId())
	b.Happens = []string{"It waits for its install from now on: when it boots from the network, an installer may take it up."}
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

// approve names the workflow first: from pending on, an installer may take the node up.
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
		_, err = v.write.nodes.UpdateNode(v.ctx, &holdfastv1.UpdateNodeRequest{Id: id, Node: &holdfastv1.NodeRecord{WorkflowId: w}, Paths: []string{"workflow_id"}})
	}
	if err == nil {
		_, err = v.write.nodes.TransitionNode(v.ctx, &holdfastv1.TransitionNodeRequest{Id: id, State: holdfastv1.Node_PENDING, Comment: form.Get("comment")})
	}
	if err != nil {
		return v.ask("Approve "+id, "machines", b, err)
	}
	return v.done(b.Back)
}
