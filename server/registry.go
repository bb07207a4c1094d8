package server

import (
	"context"
	"time"

	"github.com/google/uuid"
	"google.golang.org/grpc"

	"github.com/holdfast-metal/holdfast/cluster"
	"github.com/holdfast-metal/holdfast/fsm"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
	"github.com/holdfast-metal/holdfast/server/filter"
)

// serviceTTL is how long a service is active without a ping: clients ping every 5 to 30 s.
const serviceTTL = 90 * time.Second

// registryService is RegistryService (the discovery API).
type registryService struct {
	holdfastv1.UnimplementedRegistryServiceServer
	*Server
}

// RegisterService registers a service, under the id that it brings or a new one.
func (s *registryService) RegisterService(ctx context.Context, r *holdfastv1.RegisterServiceRequest) (*holdfastv1.Service, error) {
	t := r.GetTarget()
	if t == nil {
		return nil, invalid("target", "is required")
	}
	if err := violations(fsm.CheckTarget(known(t))); err != nil {
		return nil, err
	}
	return again(func() (*holdfastv1.Service, error) {
		c := s.command(ctx)
		c.Op = &internalv1.Command_RegisterService{RegisterService: &internalv1.RegisterService{Target: t, NewId: uuid.NewString(), TtlMs: serviceTTL.Milliseconds()}}
		return apply[*holdfastv1.Service](ctx, s.node, c)
	})
}

// UpdateServiceState puts a state of a service on record.
func (s *registryService) UpdateServiceState(ctx context.Context, r *holdfastv1.UpdateServiceStateRequest) (*holdfastv1.Service, error) {
	if err := required("id", r.GetId()); err != nil {
		return nil, err
	}
	if r.GetState() == nil {
		return nil, invalid("state", "is required")
	}
	if err := short("state.reason", r.GetState().GetReason()); err != nil {
		return nil, err
	}
	c := s.command(ctx)
	c.Op = &internalv1.Command_UpdateServiceState{UpdateServiceState: &internalv1.UpdateServiceState{Id: r.GetId(), State: known(r.GetState())}}
	return apply[*holdfastv1.Service](ctx, s.node, c)
}

// DeregisterService takes a service out.
func (s *registryService) DeregisterService(ctx context.Context, r *holdfastv1.DeregisterServiceRequest) (*holdfastv1.Service, error) {
	if r.GetId() == "" && r.GetTarget() == nil {
		return nil, invalid("id", "is required")
	}
	c := s.command(ctx)
	c.Op = &internalv1.Command_DeregisterService{DeregisterService: &internalv1.DeregisterService{Id: r.GetId(), Target: known(r.GetTarget())}}
	return apply[*holdfastv1.Service](ctx, s.node, c)
}

// GetService gets a service with its activity.
func (s *registryService) GetService(ctx context.Context, r *holdfastv1.GetServiceRequest) (*holdfastv1.Service, error) {
	if err := required("id", r.GetId()); err != nil {
		return nil, err
	}
	v, err := s.node.View(ctx)
	if err != nil {
		return nil, err
	}
	svc, ok := v.Service(r.GetId())
	if !ok {
		return nil, notFound(fsm.ReasonServiceNotFound, "service", r.GetId())
	}
	return svc, nil
}

// ListServices lists services by id; deregistered ones are there while they are remembered.
func (s *registryService) ListServices(ctx context.Context, r *holdfastv1.ListServicesRequest) (*holdfastv1.ListServicesResponse, error) {
	f, err := compile(serviceFilter, r.GetFilter())
	if err != nil {
		return nil, err
	}
	p, err := newPage(r.GetPageSize(), r.GetPageToken(), "services", r.GetFilter())
	if err != nil {
		return nil, err
	}
	v, err := s.node.View(ctx)
	if err != nil {
		return nil, err
	}
	rows := keyed(v.Services(p.after), func(s *holdfastv1.Service) string { return s.GetTarget().GetId() })
	resp := &holdfastv1.ListServicesResponse{}
	resp.Services, resp.NextPageToken, err = collect(ctx, p, rows, func(s *holdfastv1.Service) bool { return f.Match(s) })
	return resp, err
}

// WatchServices streams the services that match, then every change of one that does, in order. The last event of the current state
// has the cursor to go on from; the others have none.
func (s *registryService) WatchServices(r *holdfastv1.WatchServicesRequest, stream grpc.ServerStreamingServer[holdfastv1.ServiceEvent]) error {
	return s.Services(stream.Context(), r.GetFilter(), r.GetCursor(), stream.Send)
}

// Services is WatchServices for the HTTP API: ctx's caller has been let in.
func (s *Server) Services(ctx context.Context, text string, cursor uint64, send func(*holdfastv1.ServiceEvent) error) error {
	f, err := compile(serviceFilter, text)
	if err != nil {
		return err
	}
	v, err := s.node.View(ctx)
	if err != nil {
		return err
	}
	switch {
	case cursor == 0:
		cursor = v.LastServiceEvent()
		if err := currentServices(v, f, send); err != nil {
			return err
		}
	case cursor > v.LastServiceEvent(): // a stale view may be behind the peer that gave it out
		if v, err = s.node.View(cluster.WithConsistency(ctx, cluster.Consistency{})); err != nil {
			return err
		}
	}
	for {
		changed := s.state.Changed()
		if cursor, err = sendServiceEvents(s.state.View(), cursor, f, send); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-s.draining:
			return errDraining
		case <-changed:
		}
		select { // however often the state changes
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(servicePause):
		}
	}
}

// servicePause is the least time between two looks of a watcher at the state.
const servicePause = 20 * time.Millisecond

func currentServices(v *fsm.View, f *filter.Filter, send func(*holdfastv1.ServiceEvent) error) error {
	last := &holdfastv1.ServiceEvent{}
	for svc := range v.Services("") {
		if svc.GetDeregistered() || !f.Match(svc) {
			continue
		}
		if last.GetService() != nil {
			if err := send(last); err != nil {
				return err
			}
		}
		last = &holdfastv1.ServiceEvent{Service: svc, At: svc.GetUpdatedAt()}
	}
	last.Cursor = v.LastServiceEvent()
	if last.GetCursor() == 0 && last.GetService() == nil {
		return nil
	}
	return send(last)
}

func sendServiceEvents(v *fsm.View, cursor uint64, f *filter.Filter, send func(*holdfastv1.ServiceEvent) error) (uint64, error) {
	if v.LastServiceEvent() < cursor {
		return cursor, nil // this peer is behind the one that gave the cursor out
	}
	for {
		events, err := v.ServiceEvents(cursor, eventBatch)
		if err != nil {
			return cursor, err
		}
		if len(events) == 0 {
			return cursor, nil
		}
		for _, e := range events {
			cursor = e.GetCursor()
			if !f.Match(e.GetService()) {
				continue
			}
			if err := send(e); err != nil {
				return cursor, err
			}
		}
	}
}

// serviceFilter says what services can be filtered by.
func serviceFilter() *filter.Schema {
	s := &filter.Schema{Message: (*holdfastv1.Service)(nil).ProtoReflect().Descriptor(), Aliases: map[string]string{}}
	for _, name := range []string{"id", "service_name", "service_type", "service_sub_type", "host", "port"} {
		s.Aliases[name] = "target." + name
	}
	return s
}
