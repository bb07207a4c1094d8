package cli

import (
	"context"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-metal/holdfast/client"
	"github.com/holdfast-metal/holdfast/cmd/holdfast/cli/render"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

func (a *app) service() *cobra.Command {
	return parent(&cobra.Command{
		Use: "service", Aliases: []string{"services"},
		Short: "Services that registered with the discovery API",
		Example: `  holdfast service list
  holdfast service list --filter 'active = false'
  holdfast service get 550e8400-e29b-41d4-a716-446655440000`,
	}, a.serviceList(), a.serviceGet(), a.serviceDeregister())
}

func serviceID(s *holdfastv1.Service) string { return s.GetTarget().GetId() }

func serviceKind() kind[*holdfastv1.Service] {
	return kind[*holdfastv1.Service]{
		list:   "services",
		name:   serviceID,
		header: []string{"SERVICE", "NAME", "TYPE", "ADDRESS", "STATE", "REASON", "LAST SEEN"},
		wide:   []string{"REGISTERED", "BY"},
		row: func(s *holdfastv1.Service, now time.Time, wide bool) []render.Text {
			t, reason := s.GetTarget(), ""
			if states := s.GetStates(); len(states) > 0 {
				reason = states[len(states)-1].GetReason()
			}
			row := []render.Text{
				plain(t.GetId()), plain(t.GetServiceName()), plain(t.GetServiceType()), plain(t.GetHost() + ":" + strconv.Itoa(int(t.GetPort()))),
				serviceState(s), plain(reason), plain(render.Ago(now, at(s.GetLastSeen()))),
			}
			if wide {
				row = append(row, plain(stamp(at(s.GetRegisteredAt()))), plain(s.GetPrincipal()))
			}
			return row
		},
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

func (a *app) serviceList() *cobra.Command {
	var l listing
	cmd := &cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Args: exactly(),
		Short: "List services, deregistered ones while they are remembered",
		Example: `  holdfast service list
  holdfast service list --filter 'service_type = "tool-invoker" AND active = true'`,
		RunE: a.online(func(ctx context.Context, c *client.Client, _ []string) error {
			items, more, err := collect(l.limit, func(size int32, token string) ([]*holdfastv1.Service, string, error) {
				r, err := c.Registry().ListServices(ctx, &holdfastv1.ListServicesRequest{Filter: l.filter, PageSize: size, PageToken: token})
				return r.GetServices(), r.GetNextPageToken(), err
			})
			if err != nil {
				return failed(err, "list services")
			}
			a.noteMore(&l, more)
			return printList(a, &l.output, serviceKind(), items)
		}),
	}
	l.register(cmd, "active = true")
	return cmd
}

func (a *app) serviceGet() *cobra.Command {
	var o output
	cmd := &cobra.Command{
		Use: "get SERVICE", Args: exactly("SERVICE"), ValidArgsFunction: a.complete(serviceIDs),
		Short:   "Show a service and its last states",
		Example: "  holdfast service get 550e8400-e29b-41d4-a716-446655440000",
		RunE: a.online(func(ctx context.Context, c *client.Client, args []string) error {
			s, err := c.Registry().GetService(ctx, &holdfastv1.GetServiceRequest{Id: args[0]})
			if err != nil {
				return failed(err, "get service %s", args[0])
			}
			states := render.NewTable("AT", "HEALTHY", "REASON")
			for _, st := range s.GetStates() {
				states.Row(plain(stamp(at(st.GetTimestamp()))), plain(strconv.FormatBool(st.GetHealthy())), plain(st.GetReason()))
			}
			return printOne(a, &o, serviceKind(), s, states)
		}),
	}
	o.register(cmd)
	return cmd
}

func (a *app) serviceDeregister() *cobra.Command {
	return &cobra.Command{
		Use: "deregister SERVICE...", Args: atLeast("SERVICE"), ValidArgsFunction: a.complete(serviceIDs, serviceIDs),
		Short:   "Take services out, as they would themselves",
		Example: "  holdfast service deregister 550e8400-e29b-41d4-a716-446655440000",
		RunE: a.online(func(ctx context.Context, c *client.Client, args []string) error {
			var errs []error
			for _, id := range args {
				if _, err := c.Registry().DeregisterService(ctx, &holdfastv1.DeregisterServiceRequest{Id: id}); err != nil {
					errs = append(errs, failed(err, "deregister service %s", id))
					continue
				}
				a.note("deregistered service %s", id)
			}
			return several(errs, len(args), "deregister services")
		}),
	}
}

func serviceIDs(ctx context.Context, c *client.Client) []string {
	r, err := c.Registry().ListServices(ctx, &holdfastv1.ListServicesRequest{PageSize: pageSize})
	if err != nil {
		return nil
	}
	return ids(r.GetServices(), serviceID)
}
