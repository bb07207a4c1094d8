package server

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast-metal/holdfast/fsm"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
	"github.com/holdfast-metal/holdfast/server/auth"
)

// stalledAfter is how long a node may be between two stable states before it counts as
// stalled, if the request sets no time.
const stalledAfter = time.Hour

// nodeService implements NodeService. A node is a machine.
type nodeService struct {
	holdfastv1.UnimplementedNodeServiceServer
	*Server
}

// CreateNode registers a node under its MAC address.
func (s *nodeService) CreateNode(ctx context.Context, r *holdfastv1.CreateNodeRequest) (*holdfastv1.Machine, error) {
	if err := required("mac_address", r.GetMacAddress()); err != nil {
		return nil, err
	}
	id, generate := r.GetMachineId(), r.GetMachineId() == ""
	return retryAborted(func() (*holdfastv1.Machine, error) {
		if generate {
			id = randomHex(4)
		}
		c := s.command(ctx)
		c.Op = &internalv1.Command_CreateNode{CreateNode: &internalv1.CreateNode{
			MachineId: id, GeneratedId: generate, MacAddress: r.GetMacAddress(), Node: withoutUnknown(r.GetNode()),
		}}
		return apply[*holdfastv1.Machine](ctx, s.node, c)
	})
}

// GetNode returns a node by the id of its machine or by a MAC address.
func (s *nodeService) GetNode(ctx context.Context, r *holdfastv1.GetNodeRequest) (*holdfastv1.Machine, error) {
	if err := required("id", r.GetId()); err != nil {
		return nil, err
	}
	v, err := s.node.View(ctx)
	if err != nil {
		return nil, err
	}
	m, ok := v.NodeByID(r.GetId())
	if !ok || !visible(auth.From(ctx), m) {
		return nil, notFound(fsm.ReasonNodeNotFound, "node", r.GetId())
	}
	return m, nil
}

// UpdateNode sets the fields in the paths.
func (s *nodeService) UpdateNode(ctx context.Context, r *holdfastv1.UpdateNodeRequest) (*holdfastv1.Machine, error) {
	if err := required("id", r.GetId()); err != nil {
		return nil, err
	}
	c := s.command(ctx)
	c.Op = &internalv1.Command_UpdateNode{UpdateNode: &internalv1.UpdateNode{
		Id: r.GetId(), Node: withoutUnknown(r.GetNode()), Paths: r.GetPaths(),
	}}
	return apply[*holdfastv1.Machine](ctx, s.node, c)
}

// TransitionNode moves a node to a state on behalf of an operator.
func (s *nodeService) TransitionNode(
	ctx context.Context, r *holdfastv1.TransitionNodeRequest,
) (*holdfastv1.Machine, error) {
	if err := required("id", r.GetId()); err != nil {
		return nil, err
	}
	_, ok := holdfastv1.Node_State_name[int32(r.GetState())]
	if !ok || r.GetState() == holdfastv1.Node_NODE_STATE_UNSPECIFIED {
		return nil, invalid("state", quote(r.GetState().String())+" is not a state of a node")
	}
	if err := checkComment("comment", r.GetComment()); err != nil {
		return nil, err
	}
	return retryAborted(func() (*holdfastv1.Machine, error) {
		c := s.command(ctx)
		c.Op = &internalv1.Command_TransitionNode{TransitionNode: &internalv1.TransitionNode{
			Id:      r.GetId(),
			State:   r.GetState(),
			Comment: r.GetComment(),
			Force:   r.GetForce(),
			RunId:   "run-" + randomHex(6),
		}}
		return apply[*holdfastv1.Machine](ctx, s.node, c)
	})
}

// ReportNode records a report of an installer or a node.
func (s *nodeService) ReportNode(ctx context.Context, r *holdfastv1.ReportNodeRequest) (*holdfastv1.Machine, error) {
	if err := required("mac_address", r.GetMacAddress()); err != nil {
		return nil, err
	}
	switch status := r.GetInstallationStatus(); status {
	case "", "started", "progress", "complete", "failed":
	default:
		return nil, invalid("installation_status",
			fmt.Sprintf("%q is not a status: send started, progress, complete or failed", status))
	}
	return retryAborted(func() (*holdfastv1.Machine, error) {
		c := s.command(ctx)
		c.Op = &internalv1.Command_ReportNode{ReportNode: &internalv1.ReportNode{
			Report:        withoutUnknown(r),
			RunId:         "run-" + randomHex(6),
			MachineId:     randomHex(4),
			Discover:      s.cfg.AutoDiscover,
			DiscoverLimit: s.discoverLimit(),
		}}
		return apply[*holdfastv1.Machine](ctx, s.node, c)
	})
}

// discoverLimit returns how many discovered machines may await approval. It is 0 while a
// peer is too old to know the limit.
func (s *Server) discoverLimit() uint32 {
	if !s.state.View().Has(fsm.Level2) {
		return 0
	}
	return s.cfg.AutoDiscoverLimit
}

// ListStalledNodes lists the nodes that have been in a transitional state for too long,
// longest first.
func (s *nodeService) ListStalledNodes(
	ctx context.Context, r *holdfastv1.ListStalledNodesRequest,
) (*holdfastv1.ListStalledNodesResponse, error) {
	p, err := newPage(r.GetPageSize(), r.GetPageToken(), "stalled", fmt.Sprint(r.GetOlderThanSeconds()))
	if err != nil {
		return nil, err
	}
	after := time.Duration(r.GetOlderThanSeconds()) * time.Second
	switch {
	case after < 0:
		return nil, invalid("older_than_seconds", "is negative")
	case after == 0:
		after = stalledAfter
	}
	v, err := s.node.View(ctx)
	if err != nil {
		return nil, err
	}
	who := auth.From(ctx)
	resp := &holdfastv1.ListStalledNodesResponse{}
	rows := v.Stalled(time.Now().Add(-after), p.after)
	resp.Machines, resp.NextPageToken, err = collect(ctx, p, rows, func(m *holdfastv1.Machine) bool {
		return visible(who, m)
	})
	return resp, err
}
