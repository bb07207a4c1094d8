package registry

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/internal/filter"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
	"github.com/holdfast-metal/holdfast/server/auth"
	"github.com/holdfast-metal/holdfast/server/internal/edge"
	"github.com/holdfast-metal/holdfast/server/internal/page"
	"github.com/holdfast-metal/holdfast/server/internal/request"
	"github.com/holdfast-metal/holdfast/server/internal/scope"
)

// Services implements RegistryService, the discovery API.
type Services struct {
	holdfastv1.UnimplementedRegistryServiceServer
	*edge.Peer
}

// NewServices returns the service of a peer.
func NewServices(peer *edge.Peer) *Services { return &Services{Peer: peer} }

// RegisterService registers a service under its own id, or under a new one.
func (s *Services) RegisterService(
	ctx context.Context, r *holdfastv1.RegisterServiceRequest,
) (*holdfastv1.Service, error) {
	t := r.GetTarget()
	if t == nil {
		return nil, request.Invalid("target", "is required")
	}
	t.Id = serviceID(t.GetId())
	if err := request.Violations(append(fsm.CheckTarget(request.WithoutUnknown(t)), unreachable(t)...)); err != nil {
		return nil, err
	}
	return edge.RetryAborted(func() (*holdfastv1.Service, error) {
		c := auth.Command(ctx)
		c.Op = &internalv1.Command_RegisterService{RegisterService: &internalv1.RegisterService{
			Target: t, NewId: uuid.NewString(), TtlMs: fsm.LifetimeOf(internalv1.LeaseRef_SERVICE).TTL.Milliseconds(),
		}}
		return edge.Apply[*holdfastv1.Service](ctx, s.Cluster, c)
	})
}

// serviceID returns the form of a service's id in the record. It is a UUID, whose case does not
// matter.
func serviceID(id string) string { return strings.ToLower(id) }

// unreachable returns violations for the fields that routers need to reach a target, and
// that are missing. It accepts any service type.
func unreachable(t *holdfastv1.ServiceTarget) []fsm.FieldViolation {
	var bad []fsm.FieldViolation
	for _, f := range []struct {
		name    string
		missing bool
	}{{"host", t.GetHost() == ""}, {"port", t.GetPort() == 0}, {"service_type", t.GetServiceType() == ""}} {
		if f.missing {
			bad = append(bad, fsm.FieldViolation{Field: "target." + f.name, Description: "is required"})
		}
	}
	return bad
}

// UpdateServiceState records the state of a service.
func (s *Services) UpdateServiceState(
	ctx context.Context, r *holdfastv1.UpdateServiceStateRequest,
) (*holdfastv1.Service, error) {
	if err := request.Required("id", r.GetId()); err != nil {
		return nil, err
	}
	if r.GetState() == nil {
		return nil, request.Invalid("state", "is required")
	}
	state := request.WithoutUnknown(r.GetState())
	state.Reason = clip(state.GetReason(), request.MaxComment)
	c := auth.Command(ctx)
	c.Op = &internalv1.Command_UpdateServiceState{
		UpdateServiceState: &internalv1.UpdateServiceState{Id: serviceID(r.GetId()), State: state},
	}
	return edge.Apply[*holdfastv1.Service](ctx, s.Cluster, c)
}

// DeregisterService deregisters a service.
func (s *Services) DeregisterService(
	ctx context.Context, r *holdfastv1.DeregisterServiceRequest,
) (*holdfastv1.Service, error) {
	t := r.GetTarget()
	if t.GetId() != "" {
		t.Id = serviceID(t.GetId())
	}
	nameless := r.GetId() == "" && t.GetId() == ""
	if nameless && t.GetServiceName() == "" {
		return nil, request.Invalid("id", "is required")
	}
	c := auth.Command(ctx)
	c.Op = &internalv1.Command_DeregisterService{
		DeregisterService: &internalv1.DeregisterService{Id: serviceID(r.GetId()), Target: request.WithoutUnknown(t)},
	}
	svc, err := edge.Apply[*holdfastv1.Service](ctx, s.Cluster, c)
	var refusal *fsm.Error
	if nameless && errors.As(err, &refusal) && refusal.Reason == fsm.ReasonServiceNotFound {
		return s.deregistered(ctx, t)
	}
	return svc, err
}

// deregistered answers a deregistration without an id for which the state found no single
// service. If the service was deregistered before, it is returned again, because a client
// that got no answer retries. The command ran first, so a service that registers
// meanwhile is not affected.
func (s *Services) deregistered(ctx context.Context, t *holdfastv1.ServiceTarget) (*holdfastv1.Service, error) {
	v, err := s.Cluster.View(ctx)
	if err != nil {
		return nil, err
	}
	var last *holdfastv1.Service
	active := 0
	for svc := range v.Services("") {
		o := svc.GetTarget()
		switch {
		case o.GetServiceName() != t.GetServiceName() || o.GetHost() != t.GetHost() || o.GetPort() != t.GetPort():
		case !svc.GetDeregistered():
			active++
		case last == nil || svc.GetUpdatedAt().AsTime().After(last.GetUpdatedAt().AsTime()):
			last = svc
		}
	}
	at := strconv.Quote(t.GetServiceName()) + " at " + net.JoinHostPort(t.GetHost(), strconv.Itoa(int(t.GetPort())))
	switch {
	case active > 1:
		return nil, request.Invalid("id", fmt.Sprintf("is required: %d services are %s", active, at))
	case last != nil:
		return last, nil
	}
	return nil, &fsm.Error{
		Code: fsm.NotFound, Reason: fsm.ReasonServiceNotFound, Message: "service " + at + " was never registered",
	}
}

// GetService returns a service with its activity.
func (s *Services) GetService(
	ctx context.Context, r *holdfastv1.GetServiceRequest,
) (*holdfastv1.Service, error) {
	v, err := request.View(ctx, s.Cluster.View, "id", r.GetId())
	if err != nil {
		return nil, err
	}
	svc, ok := v.Service(serviceID(r.GetId()))
	if !ok || !scope.SeesServices(auth.From(ctx)) {
		return nil, request.NotFound(fsm.ReasonServiceNotFound, "service", r.GetId())
	}
	return svc, nil
}

// ListServices lists services by id. Deregistered ones are included while they are kept.
func (s *Services) ListServices(
	ctx context.Context, r *holdfastv1.ListServicesRequest,
) (*holdfastv1.ListServicesResponse, error) {
	f, err := request.Filter(serviceFilter, r.GetFilter())
	if err != nil {
		return nil, err
	}
	p, v, err := page.Open(ctx, s.Cluster.View, r, "services", r.GetFilter())
	if err != nil {
		return nil, err
	}
	if !scope.SeesServices(auth.From(ctx)) {
		return &holdfastv1.ListServicesResponse{}, nil
	}
	rows := page.Keyed(v.Services(p.After), func(s *holdfastv1.Service) string { return s.GetTarget().GetId() })
	resp := &holdfastv1.ListServicesResponse{}
	resp.Services, resp.NextPageToken, err = page.Collect(ctx, p, rows, func(s *holdfastv1.Service) bool {
		return f.Match(s)
	})
	return resp, err
}

// serviceFilter returns the fields that service filters can use.
func serviceFilter() *filter.Schema {
	s := &filter.Schema{
		Message: (*holdfastv1.Service)(nil).ProtoReflect().Descriptor(),
		Aliases: map[string]string{},
		Fixed:   []string{"target.id"},
	}
	for _, name := range []string{"id", "service_name", "service_type", "service_sub_type", "host", "port"} {
		s.Aliases[name] = "target." + name
	}
	return s
}
