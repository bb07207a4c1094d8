package fleet

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/holdfast-metal/holdfast/fsm"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
	"github.com/holdfast-metal/holdfast/server/auth"
	"github.com/holdfast-metal/holdfast/server/internal/edge"
	"github.com/holdfast-metal/holdfast/server/internal/page"
	"github.com/holdfast-metal/holdfast/server/internal/request"
	"github.com/holdfast-metal/holdfast/server/internal/scope"
)

// stalledAfter is the time after which a node between two stable states counts as stalled, if
// the request sets no time.
const stalledAfter = time.Hour

// Discovery configures the creation of machines for reports from unknown MAC addresses.
type Discovery struct {
	On    bool
	Limit uint32 // maximum number of machines that await approval; 0: no limit
}

// Nodes implements NodeService. A node is a machine.
type Nodes struct {
	holdfastv1.UnimplementedNodeServiceServer
	*edge.Peer
	discovery Discovery
}

// NewNodes returns the service of a peer.
func NewNodes(peer *edge.Peer, d Discovery) *Nodes { return &Nodes{Peer: peer, discovery: d} }

// CreateNode registers a node under its MAC address.
func (s *Nodes) CreateNode(ctx context.Context, r *holdfastv1.CreateNodeRequest) (*holdfastv1.Machine, error) {
	if err := request.Required("mac_address", r.GetMacAddress()); err != nil {
		return nil, err
	}
	id, generate := r.GetMachineId(), r.GetMachineId() == ""
	return edge.RetryAborted(func() (*holdfastv1.Machine, error) {
		if generate {
			id = edge.RandomHex(4)
		}
		c := auth.Command(ctx)
		c.Op = &internalv1.Command_CreateNode{CreateNode: &internalv1.CreateNode{
			MachineId: id, GeneratedId: generate, MacAddress: r.GetMacAddress(), Node: request.WithoutUnknown(r.GetNode()),
		}}
		return edge.Apply[*holdfastv1.Machine](ctx, s.Cluster, c)
	})
}

// GetNode returns a node by the id of its machine or by a MAC address.
func (s *Nodes) GetNode(ctx context.Context, r *holdfastv1.GetNodeRequest) (*holdfastv1.Machine, error) {
	v, err := request.View(ctx, s.Cluster.View, "id", r.GetId())
	if err != nil {
		return nil, err
	}
	m, ok := v.NodeByID(r.GetId())
	if !ok || !scope.Visible(auth.From(ctx), m) {
		return nil, request.NotFound(fsm.ReasonNodeNotFound, "node", r.GetId())
	}
	return m, nil
}

// UpdateNode sets the fields in the paths.
func (s *Nodes) UpdateNode(ctx context.Context, r *holdfastv1.UpdateNodeRequest) (*holdfastv1.Machine, error) {
	if err := request.Required("id", r.GetId()); err != nil {
		return nil, err
	}
	c := auth.Command(ctx)
	c.Op = &internalv1.Command_UpdateNode{UpdateNode: &internalv1.UpdateNode{
		Id: r.GetId(), Node: request.WithoutUnknown(r.GetNode()), Paths: r.GetPaths(),
	}}
	return edge.Apply[*holdfastv1.Machine](ctx, s.Cluster, c)
}

// TransitionNode moves a node to a state on behalf of an operator.
func (s *Nodes) TransitionNode(
	ctx context.Context, r *holdfastv1.TransitionNodeRequest,
) (*holdfastv1.Machine, error) {
	if err := request.Required("id", r.GetId()); err != nil {
		return nil, err
	}
	_, ok := holdfastv1.Node_State_name[int32(r.GetState())]
	if !ok || r.GetState() == holdfastv1.Node_NODE_STATE_UNSPECIFIED {
		return nil, request.Invalid("state", strconv.Quote(r.GetState().String())+" is not a state of a node")
	}
	if err := request.Comment("comment", r.GetComment()); err != nil {
		return nil, err
	}
	return edge.RetryAborted(func() (*holdfastv1.Machine, error) {
		c := auth.Command(ctx)
		c.Op = &internalv1.Command_TransitionNode{TransitionNode: &internalv1.TransitionNode{
			Id:      r.GetId(),
			State:   r.GetState(),
			Comment: r.GetComment(),
			Force:   r.GetForce(),
			RunId:   "run-" + edge.RandomHex(6),
		}}
		return edge.Apply[*holdfastv1.Machine](ctx, s.Cluster, c)
	})
}

// ReportNode records a report of an installer or a node.
func (s *Nodes) ReportNode(ctx context.Context, r *holdfastv1.ReportNodeRequest) (*holdfastv1.Machine, error) {
	if err := request.Required("mac_address", r.GetMacAddress()); err != nil {
		return nil, err
	}
	switch status := r.GetInstallationStatus(); status {
	case "", "started", "progress", "complete", "failed":
	default:
		return nil, request.Invalid("installation_status",
			fmt.Sprintf("%q is not a status: send started, progress, complete or failed", status))
	}
	if id := r.GetRequestId(); len(id) > 64 {
		return nil, request.Invalid("request_id", fmt.Sprintf("has %d bytes, at most 64 are allowed", len(id)))
	} else if !fsm.Trimmed(id) {
		return nil, request.Invalid("request_id", fmt.Sprintf("%q has control characters, or a space at an end", id))
	}
	return edge.RetryAborted(func() (*holdfastv1.Machine, error) {
		c := auth.Command(ctx)
		if id := r.GetRequestId(); id != "" { // of this caller and machine: others may choose the same
			mac, _ := fsm.MAC(r.GetMacAddress())
			c.Delivery = &internalv1.Delivery{
				Id: "report/" + c.GetOrigin().GetTokenId() + "/" + mac + "/" + id,
			}
		}
		c.Op = &internalv1.Command_ReportNode{ReportNode: &internalv1.ReportNode{
			Report:        request.WithoutUnknown(r),
			RunId:         "run-" + edge.RandomHex(6),
			MachineId:     edge.RandomHex(4),
			Discover:      s.discovery.On,
			DiscoverLimit: s.discovery.Limit,
		}}
		return edge.Apply[*holdfastv1.Machine](ctx, s.Cluster, c)
	})
}

// ListStalledNodes lists the nodes that have been in a transitional state for too long,
// longest first.
func (s *Nodes) ListStalledNodes(
	ctx context.Context, r *holdfastv1.ListStalledNodesRequest,
) (*holdfastv1.ListStalledNodesResponse, error) {
	after := time.Duration(r.GetOlderThanSeconds()) * time.Second
	switch {
	case after < 0:
		return nil, request.Invalid("older_than_seconds", "is negative")
	case after == 0:
		after = stalledAfter
	}
	p, v, err := page.Open(ctx, s.Cluster.View, r, "stalled", fmt.Sprint(r.GetOlderThanSeconds()))
	if err != nil {
		return nil, err
	}
	who := auth.From(ctx)
	resp := &holdfastv1.ListStalledNodesResponse{}
	rows := v.Stalled(s.Time().Add(-after), p.After)
	resp.Machines, resp.NextPageToken, err = page.Collect(ctx, p, rows, func(m *holdfastv1.Machine) bool {
		return scope.Visible(who, m)
	})
	return resp, err
}
