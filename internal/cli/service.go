package cli

import (
	"context"
	"strconv"

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

// watchServices prints the services that match, and each again when it changes. It follows the
// stream of changes, so none is missed.
func watchServices(ctx context.Context, a *app, c *client.Client, l *listing) error {
	ctx, cancel := a.patience(ctx, 0)
	defer cancel()
	k := serviceKind()
	t, header := k.newTable(&l.output), true
	first := firstOf(l.limit)
	err := c.WatchServices(ctx, l.filter, 0, func(e *holdfastv1.ServiceEvent) error {
		if !first(k.name(e.GetService())) {
			return nil
		}
		defer func() { header = false }()
		return printChanged(a, &l.output, k, t, []*holdfastv1.Service{e.GetService()}, header)
	})
	if ctx.Err() != nil {
		return ended(ctx, ctx.Err())
	}
	return failed(err, "watch services")
}
