package server

import (
	"context"
	"slices"
	"strconv"

	"github.com/holdfast-metal/holdfast/fsm"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
	"github.com/holdfast-metal/holdfast/server/auth"
)

// machineService implements MachineService.
type machineService struct {
	holdfastv1.UnimplementedMachineServiceServer
	*Server
}

// RegisterMachine registers a new machine or updates a known one.
func (s *machineService) RegisterMachine(
	ctx context.Context, r *holdfastv1.RegisterMachineRequest,
) (*holdfastv1.Machine, error) {
	if r.GetMachine() == nil {
		return nil, invalid("machine", "is required")
	}
	m := inventory(r.GetMachine())
	switch p := r.GetMachine().GetStatus().GetPhase(); p {
	case holdfastv1.MachineStatus_FACTORY_READY, holdfastv1.MachineStatus_READY: // clients can set only these
		m.Status = &holdfastv1.MachineStatus{Phase: p}
	}
	if err := violations(fsm.NormalizeMachine(m)); err != nil {
		return nil, err
	}
	generate := m.GetMachineId() == ""
	return retryAborted(func() (*holdfastv1.Machine, error) {
		if generate {
			m.MachineId = randomHex(4)
		}
		c := s.command(ctx)
		c.Op = &internalv1.Command_RegisterMachine{
			RegisterMachine: &internalv1.RegisterMachine{Machine: m, GeneratedId: generate},
		}
		return apply[*holdfastv1.Machine](ctx, s.node, c)
	})
}

// inventory returns the parts of a machine that clients may set.
func inventory(in *holdfastv1.Machine) *holdfastv1.Machine {
	m := &holdfastv1.Machine{MachineId: in.GetMachineId(), Labels: in.GetLabels(), Spec: in.GetSpec()}
	dropUnknown(m.ProtoReflect())
	return m
}

// GetMachine gets a machine.
func (s *machineService) GetMachine(ctx context.Context, r *holdfastv1.GetMachineRequest) (*holdfastv1.Machine, error) {
	if err := required("machine_id", r.GetMachineId()); err != nil {
		return nil, err
	}
	v, err := s.node.View(ctx)
	if err != nil {
		return nil, err
	}
	m, ok := machineFor(ctx, v, r.GetMachineId())
	if !ok {
		return nil, notFound("MACHINE_NOT_FOUND", "machine", r.GetMachineId())
	}
	m.Hardware = v.Hardware(m.GetMachineId())
	return m, nil
}

// ListMachines lists machines by id.
func (s *machineService) ListMachines(
	ctx context.Context, r *holdfastv1.ListMachinesRequest,
) (*holdfastv1.ListMachinesResponse, error) {
	f, err := compile(machineFilter, r.GetFilter())
	if err != nil {
		return nil, err
	}
	p, err := newPage(r.GetPageSize(), r.GetPageToken(), "machines", r.GetFilter())
	if err != nil {
		return nil, err
	}
	v, err := s.node.View(ctx)
	if err != nil {
		return nil, err
	}
	id := auth.From(ctx)
	rows := keyed(v.FindMachines(machineQuery(f, id), p.after), (*holdfastv1.Machine).GetMachineId)
	if pinned, ok := f.Pinned("machine_id"); ok {
		rows = single(p, pinned, v.Machine)
	}
	resp := &holdfastv1.ListMachinesResponse{}
	resp.Machines, resp.NextPageToken, err = collect(ctx, p, rows, func(m *holdfastv1.Machine) bool {
		return f.Match(m) && visible(id, m)
	})
	return resp, err
}

// UpdateMachine updates spec and labels, or only the fields of the field mask.
func (s *machineService) UpdateMachine(
	ctx context.Context, r *holdfastv1.UpdateMachineRequest,
) (*holdfastv1.Machine, error) {
	if err := required("machine.machine_id", r.GetMachine().GetMachineId()); err != nil {
		return nil, err
	}
	m, paths := inventory(r.GetMachine()), r.GetUpdateMask().GetPaths()
	if len(paths) == 1 && paths[0] == "*" {
		paths = []string{"spec", "labels"}
	}
	if len(paths) == 0 || r.GetMachine().GetSpec() != nil && slices.Contains(paths, "spec") {
		if err := violations(fsm.NormalizeMachine(m)); err != nil {
			return nil, err
		}
	}
	c := s.command(ctx)
	c.Op = &internalv1.Command_UpdateMachine{UpdateMachine: &internalv1.UpdateMachine{Machine: m, Paths: paths}}
	return apply[*holdfastv1.Machine](ctx, s.node, c)
}

// SetMachinePhase moves a machine to a phase on behalf of an operator.
func (s *machineService) SetMachinePhase(
	ctx context.Context, r *holdfastv1.SetMachinePhaseRequest,
) (*holdfastv1.Machine, error) {
	if err := required("machine_id", r.GetMachineId()); err != nil {
		return nil, err
	}
	phase := r.GetPhase()
	_, known := holdfastv1.MachineStatus_Phase_name[int32(phase)]
	if !known || phase == holdfastv1.MachineStatus_PHASE_UNSPECIFIED {
		return nil, invalid("phase", quote(phase.String())+
			" is not a phase that an operator can set: want READY, IN_SERVICE, MAINTENANCE, RMA or RETIRED")
	}
	if err := checkComment("comment", r.GetComment()); err != nil {
		return nil, err
	}
	c := s.command(ctx)
	c.Op = &internalv1.Command_SetMachinePhase{SetMachinePhase: &internalv1.SetMachinePhase{
		MachineId: r.GetMachineId(), Phase: phase, Comment: r.GetComment(),
	}}
	return apply[*holdfastv1.Machine](ctx, s.node, c)
}

// RetryBmc lets the provider log in to a machine's BMC again.
func (s *machineService) RetryBmc(ctx context.Context, r *holdfastv1.RetryBmcRequest) (*holdfastv1.Machine, error) {
	if err := required("machine_id", r.GetMachineId()); err != nil {
		return nil, err
	}
	if err := s.needs(ctx, fsm.Level2, "retry the BMC"); err != nil {
		return nil, err
	}
	c := s.command(ctx)
	c.Op = &internalv1.Command_RetryBmc{RetryBmc: &internalv1.RetryBmc{MachineId: r.GetMachineId()}}
	return apply[*holdfastv1.Machine](ctx, s.node, c)
}

// DeleteMachine deletes a machine that has no active run.
func (s *machineService) DeleteMachine(
	ctx context.Context, r *holdfastv1.DeleteMachineRequest,
) (*holdfastv1.DeleteMachineResponse, error) {
	if err := required("machine_id", r.GetMachineId()); err != nil {
		return nil, err
	}
	c := s.command(ctx)
	c.Op = &internalv1.Command_DeleteMachine{DeleteMachine: &internalv1.DeleteMachine{MachineId: r.GetMachineId()}}
	if _, err := s.node.Apply(ctx, c); err != nil {
		return nil, err
	}
	return &holdfastv1.DeleteMachineResponse{}, nil
}

// ListMachineHistory lists the history of a machine, newest first. The history is kept
// after the machine is deleted.
func (s *machineService) ListMachineHistory(
	ctx context.Context, r *holdfastv1.ListMachineHistoryRequest,
) (*holdfastv1.ListMachineHistoryResponse, error) {
	id := r.GetMachineId()
	if err := required("machine_id", id); err != nil {
		return nil, err
	}
	p, err := newPage(r.GetPageSize(), r.GetPageToken(), "history", id)
	if err != nil {
		return nil, err
	}
	var before uint64
	if p.after != "" {
		if before, err = strconv.ParseUint(p.after, 10, 64); err != nil {
			return nil, invalid("page_token", "is damaged: start again without one")
		}
	}
	v, err := s.node.View(ctx)
	if err != nil {
		return nil, err
	}
	_, exists := machineFor(ctx, v, id)
	if !exists && auth.Scoped(auth.From(ctx)) {
		return nil, notFound("MACHINE_NOT_FOUND", "machine", id)
	}
	rows := keyed(v.History(id, before), func(e *holdfastv1.HistoryEntry) string {
		return strconv.FormatUint(e.GetSequence(), 10)
	})
	resp := &holdfastv1.ListMachineHistoryResponse{}
	resp.Entries, resp.NextPageToken, err = collect(ctx, p, rows, func(*holdfastv1.HistoryEntry) bool { return true })
	if err != nil {
		return nil, err
	}
	if !exists && len(resp.GetEntries()) == 0 && p.after == "" {
		return nil, notFound("MACHINE_NOT_FOUND", "machine", id)
	}
	return resp, nil
}
