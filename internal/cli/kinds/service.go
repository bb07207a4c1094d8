package kinds

import (
	"context"
	"strconv"
	"time"

	"github.com/holdfast-metal/holdfast/client"
	"github.com/holdfast-metal/holdfast/internal/cli/app"
	"github.com/holdfast-metal/holdfast/internal/cli/output"
	"github.com/holdfast-metal/holdfast/internal/cli/render"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// ServiceID returns the id of a service.
func ServiceID(s *holdfastv1.Service) string { return s.GetTarget().GetId() }

// Service returns the kind of services.
func Service() output.Kind[*holdfastv1.Service] {
	return output.Kind[*holdfastv1.Service]{
		Noun: "service", List: "services",
		Name:   ServiceID,
		Header: []string{"SERVICE", "NAME", "TYPE", "ADDRESS", "STATE", "REASON", "LAST SEEN"},
		Wide:   []string{"REGISTERED", "BY"},
		Row: func(s *holdfastv1.Service, now time.Time) []any {
			t, reason := s.GetTarget(), ""
			if states := s.GetStates(); len(states) > 0 {
				reason = states[len(states)-1].GetReason()
			}
			return []any{
				t.GetId(), t.GetServiceName(), t.GetServiceType(),
				t.GetHost() + ":" + strconv.Itoa(int(t.GetPort())), serviceState(s), reason,
				app.Age(now, s.GetLastSeen()),
				app.Stamp(s.GetRegisteredAt()), s.GetPrincipal(),
			}
		},
		Page: func(ctx context.Context, c *client.Client, q output.Query) ([]*holdfastv1.Service, string, error) {
			r, err := c.Registry().ListServices(ctx, &holdfastv1.ListServicesRequest{Filter: q.Filter,
				PageSize: q.Size, PageToken: q.Token})
			return r.GetServices(), r.GetNextPageToken(), err
		},
		Get: getService,
	}
}

func serviceState(s *holdfastv1.Service) render.Text {
	switch {
	case s.GetDeregistered():
		return app.Plain("deregistered")
	case !s.GetActive():
		return render.T("inactive", render.Red)
	}
	return render.T("active", render.Green)
}

func getService(ctx context.Context, c *client.Client, id string) (*holdfastv1.Service, error) {
	return c.Registry().GetService(ctx, &holdfastv1.GetServiceRequest{Id: id})
}
