package installs

import (
	"context"
	"strconv"

	"github.com/holdfast-metal/holdfast/fsm"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
	"github.com/holdfast-metal/holdfast/server/auth"
	"github.com/holdfast-metal/holdfast/server/internal/edge"
	"github.com/holdfast-metal/holdfast/server/internal/fleet"
	"github.com/holdfast-metal/holdfast/server/internal/page"
	"github.com/holdfast-metal/holdfast/server/internal/request"
	"github.com/holdfast-metal/holdfast/server/internal/scope"
)

// Denials records refused calls in the audit trail (*auth.Gate).
type Denials interface {
	Deny(ctx context.Context, method, resource string, refusal *auth.Error)
}

// Starts prepares commands that start runs (*startrun.Preparer).
type Starts interface {
	Prepare(ctx context.Context, start *internalv1.StartRun) error
}

// Service implements InstallService, for machines that boot from the network and their
// installers.
type Service struct {
	holdfastv1.UnimplementedInstallServiceServer
	*edge.Peer
	discovery fleet.Discovery
	starts    Starts
	denials   Denials
}

// New returns the service of a peer.
func New(peer *edge.Peer, d fleet.Discovery, starts Starts, denials Denials) *Service {
	return &Service{Peer: peer, discovery: d, starts: starts, denials: denials}
}

// GetInstall gets the install session of a machine.
func (s *Service) GetInstall(ctx context.Context, r *holdfastv1.GetInstallRequest) (*holdfastv1.Install, error) {
	v, err := request.View(ctx, s.Cluster.View, "machine_id", r.GetMachineId())
	if err != nil {
		return nil, err
	}
	i, ok := v.Install(r.GetMachineId())
	m, known := v.Machine(r.GetMachineId())
	if !ok || !known || !scope.Visible(auth.From(ctx), m) {
		return nil, request.NotFound(fsm.ReasonNoInstall, "install", r.GetMachineId())
	}
	return i, nil
}

// ListInstalls lists install sessions by machine.
func (s *Service) ListInstalls(
	ctx context.Context, r *holdfastv1.ListInstallsRequest,
) (*holdfastv1.ListInstallsResponse, error) {
	p, v, err := page.Open(ctx, s.Cluster.View, r, "installs", strconv.FormatBool(r.GetAll()))
	if err != nil {
		return nil, err
	}
	caller, resp := auth.From(ctx), &holdfastv1.ListInstallsResponse{}
	installs := page.Keyed(v.Installs(p.After), (*holdfastv1.Install).GetMachineId)
	resp.Installs, resp.NextPageToken, err = page.Collect(ctx, p, installs, func(i *holdfastv1.Install) bool {
		m, known := v.Machine(i.GetMachineId())
		return (r.GetAll() || fsm.InstallOpen(i)) && known && scope.Visible(caller, m)
	})
	return resp, err
}
