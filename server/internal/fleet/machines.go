package fleet

import (
	"context"
	"slices"
	"strconv"

	"github.com/holdfast-metal/holdfast/fsm"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
	"github.com/holdfast-metal/holdfast/server/auth"
	"github.com/holdfast-metal/holdfast/server/internal/edge"
	"github.com/holdfast-metal/holdfast/server/internal/page"
	"github.com/holdfast-metal/holdfast/server/internal/request"
	"github.com/holdfast-metal/holdfast/server/internal/scope"
)

// Machines implements MachineService.
type Machines struct {
	holdfastv1.UnimplementedMachineServiceServer
	*edge.Peer
	providers Providers
}

// NewMachines returns the service of a peer with these providers.
func NewMachines(peer *edge.Peer, p Providers) *Machines { return &Machines{Peer: peer, providers: p} }

// RegisterMachine registers a new machine or updates a known one.
func (s *Machines) RegisterMachine(
	ctx context.Context, r *holdfastv1.RegisterMachineRequest,
) (*holdfastv1.Machine, error) {
	if r.GetMachine() == nil {
		return nil, request.Invalid("machine", "is required")
	}
	m := inventory(r.GetMachine())
	switch p := r.GetMachine().GetStatus().GetPhase(); p {
	case holdfastv1.MachineStatus_FACTORY_READY, holdfastv1.MachineStatus_READY: // clients can set only these
		m.Status = &holdfastv1.MachineStatus{Phase: p}
	}
	if err := request.Violations(fsm.NormalizeMachine(m)); err != nil {
		return nil, err
	}
	if err := s.checkReferences(ctx, m, nil); err != nil {
		return nil, err
	}
	generate := m.GetMachineId() == ""
	return edge.RetryAborted(func() (*holdfastv1.Machine, error) {
		if generate {
			m.MachineId = edge.RandomHex(4)
		}
		c := auth.Command(ctx)
		c.Op = &internalv1.Command_RegisterMachine{
			RegisterMachine: &internalv1.RegisterMachine{Machine: m, GeneratedId: generate},
		}
		return edge.Apply[*holdfastv1.Machine](ctx, s.Cluster, c)
	})
}

// inventory returns the parts of a machine that clients may set.
func inventory(in *holdfastv1.Machine) *holdfastv1.Machine {
	m := &holdfastv1.Machine{MachineId: in.GetMachineId(), Labels: in.GetLabels(), Spec: in.GetSpec()}
	request.WithoutUnknown(m)
	return m
}

// GetMachine gets a machine.
func (s *Machines) GetMachine(ctx context.Context, r *holdfastv1.GetMachineRequest) (*holdfastv1.Machine, error) {
	v, m, err := s.machine(ctx, r.GetMachineId())
	if err != nil {
		return nil, err
	}
	m.Hardware, m.HardwareSummary = v.Hardware(m.GetMachineId()), v.HardwareSummary(m)
	return m, nil
}

// machine returns a machine that the caller may see, and the view that it is from.
func (s *Machines) machine(ctx context.Context, id string) (*fsm.View, *holdfastv1.Machine, error) {
	v, err := request.View(ctx, s.Cluster.View, "machine_id", id)
	if err != nil {
		return nil, nil, err
	}
	m, ok := scope.Machine(ctx, v, id)
	if !ok {
		return nil, nil, request.NotFound("MACHINE_NOT_FOUND", "machine", id)
	}
	return v, m, nil
}

// ListMachines lists machines by id.
func (s *Machines) ListMachines(
	ctx context.Context, r *holdfastv1.ListMachinesRequest,
) (*holdfastv1.ListMachinesResponse, error) {
	f, err := request.Filter(machineFilter, r.GetFilter())
	if err != nil {
		return nil, err
	}
	p, v, err := page.Open(ctx, s.Cluster.View, r, "machines", r.GetFilter())
	if err != nil {
		return nil, err
	}
	id := auth.From(ctx)
	rows := page.Keyed(v.FindMachines(machineQuery(f, id), p.After), (*holdfastv1.Machine).GetMachineId)
	if pinned, ok := f.Pinned("machine_id"); ok {
		rows = page.Single(p, pinned, v.Machine)
	}
	resp := &holdfastv1.ListMachinesResponse{}
	resp.Machines, resp.NextPageToken, err = page.Collect(ctx, p, rows, func(m *holdfastv1.Machine) bool {
		return f.Match(m) && scope.Visible(id, m)
	})
	for _, m := range resp.GetMachines() {
		m.HardwareSummary = v.HardwareSummary(m)
	}
	return resp, err
}

// UpdateMachine updates spec and labels, or only the fields of the field mask.
func (s *Machines) UpdateMachine(
	ctx context.Context, r *holdfastv1.UpdateMachineRequest,
) (*holdfastv1.Machine, error) {
	if err := request.Required("machine.machine_id", r.GetMachine().GetMachineId()); err != nil {
		return nil, err
	}
	m, paths := inventory(r.GetMachine()), r.GetUpdateMask().GetPaths()
	if len(paths) == 1 && paths[0] == "*" {
		paths = []string{"spec", "labels"}
	}
	if len(paths) == 0 || r.GetMachine().GetSpec() != nil && slices.Contains(paths, "spec") {
		if err := request.Violations(fsm.NormalizeMachine(m)); err != nil {
			return nil, err
		}
	}
	if err := s.checkReferences(ctx, m, paths); err != nil {
		return nil, err
	}
	c := auth.Command(ctx)
	c.Op = &internalv1.Command_UpdateMachine{UpdateMachine: &internalv1.UpdateMachine{Machine: m, Paths: paths}}
	return edge.Apply[*holdfastv1.Machine](ctx, s.Cluster, c)
}

// SetMachinePhase moves a machine to a phase on behalf of an operator.
func (s *Machines) SetMachinePhase(
	ctx context.Context, r *holdfastv1.SetMachinePhaseRequest,
) (*holdfastv1.Machine, error) {
	if err := request.Required("machine_id", r.GetMachineId()); err != nil {
		return nil, err
	}
	phase := r.GetPhase()
	_, known := holdfastv1.MachineStatus_Phase_name[int32(phase)]
	if !known || phase == holdfastv1.MachineStatus_PHASE_UNSPECIFIED {
		return nil, request.Invalid("phase", strconv.Quote(phase.String())+
			" is not a phase that an operator can set: want READY, IN_SERVICE, MAINTENANCE, RMA or RETIRED")
	}
	if err := request.Comment("comment", r.GetComment()); err != nil {
		return nil, err
	}
	c := auth.Command(ctx)
	c.Op = &internalv1.Command_SetMachinePhase{SetMachinePhase: &internalv1.SetMachinePhase{
		MachineId: r.GetMachineId(), Phase: phase, Comment: r.GetComment(),
	}}
	return edge.Apply[*holdfastv1.Machine](ctx, s.Cluster, c)
}

// RetryBmc lets the provider log in to a machine's BMC again.
func (s *Machines) RetryBmc(ctx context.Context, r *holdfastv1.RetryBmcRequest) (*holdfastv1.Machine, error) {
	if err := request.Required("machine_id", r.GetMachineId()); err != nil {
		return nil, err
	}
	c := auth.Command(ctx)
	c.Op = &internalv1.Command_RetryBmc{RetryBmc: &internalv1.RetryBmc{MachineId: r.GetMachineId()}}
	return edge.Apply[*holdfastv1.Machine](ctx, s.Cluster, c)
}

// DeleteMachine deletes a machine that has no active run.
func (s *Machines) DeleteMachine(
	ctx context.Context, r *holdfastv1.DeleteMachineRequest,
) (*holdfastv1.DeleteMachineResponse, error) {
	if err := request.Required("machine_id", r.GetMachineId()); err != nil {
		return nil, err
	}
	c := auth.Command(ctx)
	c.Op = &internalv1.Command_DeleteMachine{DeleteMachine: &internalv1.DeleteMachine{MachineId: r.GetMachineId()}}
	return edge.ApplyEmpty[holdfastv1.DeleteMachineResponse](ctx, s.Cluster, c)
}
