package cli

import (
	"context"
	"strconv"
	"time"

	"github.com/holdfast-metal/holdfast/client"
	"github.com/holdfast-metal/holdfast/internal/cli/render"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

func serviceID(s *holdfastv1.Service) string { return s.GetTarget().GetId() }

func serviceKind() kind[*holdfastv1.Service] {
	return kind[*holdfastv1.Service]{
		noun: "service", list: "services",
		name:   serviceID,
		header: []string{"SERVICE", "NAME", "TYPE", "ADDRESS", "STATE", "REASON", "LAST SEEN"},
		wide:   []string{"REGISTERED", "BY"},
		row: func(s *holdfastv1.Service, now time.Time) []any {
			t, reason := s.GetTarget(), ""
			if states := s.GetStates(); len(states) > 0 {
				reason = states[len(states)-1].GetReason()
			}
			return []any{
				t.GetId(), t.GetServiceName(), t.GetServiceType(),
				t.GetHost() + ":" + strconv.Itoa(int(t.GetPort())), serviceState(s), reason,
				age(now, s.GetLastSeen()),
				stamp(s.GetRegisteredAt()), s.GetPrincipal(),
			}
		},
		page: func(ctx context.Context, c *client.Client, q query) ([]*holdfastv1.Service, string, error) {
			r, err := c.Registry().ListServices(ctx, &holdfastv1.ListServicesRequest{Filter: q.filter,
				PageSize: q.size, PageToken: q.token})
			return r.GetServices(), r.GetNextPageToken(), err
		},
		get: getService,
	}
}

func serviceState(s *holdfastv1.Service) render.Text {
	switch {
	case s.GetDeregistered():
		return plain("deregistered")
	case !s.GetActive():
		return render.T("inactive", render.Red)
	}
	return render.T("active", render.Green)
}

func getService(ctx context.Context, c *client.Client, id string) (*holdfastv1.Service, error) {
	return c.Registry().GetService(ctx, &holdfastv1.GetServiceRequest{Id: id})
}
