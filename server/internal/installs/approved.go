package installs

import (
	"context"
	"errors"
	"fmt"

	"github.com/holdfast-metal/holdfast/fsm"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
	"github.com/holdfast-metal/holdfast/server/internal/edge"
)

// approved returns the boot answer for a machine that an admin has approved. BootMachine
// then starts its workflow.
func approved(v *fsm.View, m *holdfastv1.Machine) *holdfastv1.BootMachineResponse {
	id := fsm.ApprovedPlan(m)
	plan, ok := v.Plan(id)
	reason := ""
	switch {
	case !ok:
		reason = "its workflow " + id + " does not exist"
	case !fsm.Installs(plan):
		reason = "its workflow " + id + " installs nothing"
	default:
		return waitAnswer(m.GetMachineId(), "", "it is approved: its workflow "+id+" starts now")
	}
	return &holdfastv1.BootMachineResponse{
		Action:    holdfastv1.BootMachineResponse_DISK,
		MachineId: m.GetMachineId(),
		Reason:    reason,
	}
}

// startApproved starts the workflow of an approved machine when it boots from the
// network, once per approval. If the workflow cannot start, the machine boots its disk.
func (s *Service) startApproved(
	ctx context.Context, v *fsm.View, answer *holdfastv1.BootMachineResponse,
) (*holdfastv1.BootMachineResponse, error) {
	m, ok := v.Machine(answer.GetMachineId())
	id := fsm.ApprovedPlan(m)
	if !ok || id == "" {
		return answer, nil
	}
	start := &internalv1.StartRun{
		MachineId: m.GetMachineId(),
		RequestId: fmt.Sprintf("approved-%d", m.GetNode().GetApprovedAt().AsTime().UnixNano()),
		Type:      "REPAVE",
		PlanId:    id,
	}
	if err := s.starts.Prepare(ctx, start); err != nil {
		return nil, err
	}
	c := &internalv1.Command{
		Principal: "netboot",
		Op:        &internalv1.Command_StartRun{StartRun: start},
	}
	run, err := edge.Apply[*holdfastv1.Run](ctx, s.Cluster, c)
	if refused, ok := errors.AsType[*fsm.Error](err); ok && refused.Code != fsm.Aborted {
		answer.Action = holdfastv1.BootMachineResponse_DISK
		answer.Reason = "its workflow " + id + " cannot start: " + refused.Message
		return answer, nil
	}
	if err != nil {
		return nil, err
	}
	answer.RunId, answer.Reason = run.GetRunId(), "run "+run.GetRunId()+" is about to install it"
	return answer, nil
}
