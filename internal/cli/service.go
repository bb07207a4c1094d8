package cli

import (
	"context"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-metal/holdfast/client"
	"github.com/holdfast-metal/holdfast/internal/cli/render"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

func serviceCommand(a *app) *cobra.Command {
	return parent(&cobra.Command{
		Use: "service", Aliases: []string{"services"},
		Short: "Show and deregister services of the discovery API",
		Example: `  holdfast service list
  holdfast service list --filter 'active = false'
  holdfast service get 550e8400-e29b-41d4-a716-446655440000`,
	}, serviceList(a), serviceGet(a), serviceDeregister(a))
}

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

func serviceList(a *app) *cobra.Command {
	return listCommand(a, lister[*holdfastv1.Service]{
		short: "List services, including recently deregistered ones",
		example: `  holdfast service list
  holdfast service list --filter 'service_type = "tool-invoker" AND active = true'
  holdfast service list -w`,
		kind: serviceKind(), filter: "active = true",
		watch: func(ctx context.Context, c *client.Client, l *listing) error {
			return watchServices(ctx, a, c, l)
		},
	})
}

func serviceGet(a *app) *cobra.Command {
	return getCommand(a, getter[*holdfastv1.Service]{
		short: "Show a service and its last states", example: "  holdfast service get 550e8400-e29b-41d4-a716-446655440000",
		kind: serviceKind(),
		more: func(s *holdfastv1.Service) []*render.Table {
			states := render.NewTable("AT", "HEALTHY", "REASON")
			for _, st := range s.GetStates() {
				states.Row(stamp(st.GetTimestamp()), strconv.FormatBool(st.GetHealthy()), st.GetReason())
			}
			return []*render.Table{states}
		},
	})
}

func getService(ctx context.Context, c *client.Client, id string) (*holdfastv1.Service, error) {
	return c.Registry().GetService(ctx, &holdfastv1.GetServiceRequest{Id: id})
}

func serviceDeregister(a *app) *cobra.Command {
	return eachCommand(a, each[*holdfastv1.Service]{
		verb: "deregister", done: "deregistered", kind: serviceKind(),
		short:   "Deregister services, as they would themselves",
		example: "  holdfast service deregister 550e8400-e29b-41d4-a716-446655440000",
		do: func(ctx context.Context, c *client.Client, id string) error {
			_, err := c.Registry().DeregisterService(ctx, &holdfastv1.DeregisterServiceRequest{Id: id})
			return err
		},
	})
}
