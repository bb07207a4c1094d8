package feed

import (
	"context"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/holdfast-metal/holdfast/client"
	"github.com/holdfast-metal/holdfast/internal/cli/app"
	"github.com/holdfast-metal/holdfast/internal/cli/kinds"
	"github.com/holdfast-metal/holdfast/internal/cli/output"
	"github.com/holdfast-metal/holdfast/internal/cli/render"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// Service returns the commands of services.
func Service(a *app.App) *cobra.Command {
	return app.Parent(&cobra.Command{
		Use: "service", Aliases: []string{"services"},
		Short: "Show and deregister services of the discovery API",
		Example: `  holdfast service list
  holdfast service list --filter 'active = false'
  holdfast service get 550e8400-e29b-41d4-a716-446655440000`,
	}, serviceList(a), serviceGet(a), serviceDeregister(a))
}

func serviceList(a *app.App) *cobra.Command {
	return output.ListCommand(a, output.Lister[*holdfastv1.Service]{
		Short: "List services, including recently deregistered ones",
		Example: `  holdfast service list
  holdfast service list --filter 'service_type = "tool-invoker" AND active = true'
  holdfast service list -w`,
		Kind: kinds.Service(), Filter: "active = true",
		Watch: func(ctx context.Context, c *client.Client, l *output.Listing) error {
			return watchServices(ctx, a, c, l)
		},
	})
}

func serviceGet(a *app.App) *cobra.Command {
	return output.GetCommand(a, output.Getter[*holdfastv1.Service]{
		Short: "Show a service and its last states", Example: "  holdfast service get 550e8400-e29b-41d4-a716-446655440000",
		Kind: kinds.Service(),
		More: func(s *holdfastv1.Service) []*render.Table {
			states := render.NewTable("AT", "HEALTHY", "REASON")
			for _, st := range s.GetStates() {
				states.Row(app.Stamp(st.GetTimestamp()), strconv.FormatBool(st.GetHealthy()), st.GetReason())
			}
			return []*render.Table{states}
		},
	})
}

func serviceDeregister(a *app.App) *cobra.Command {
	return output.EachCommand(a, output.Each[*holdfastv1.Service]{
		Verb: "deregister", Done: "deregistered", Kind: kinds.Service(),
		Short:   "Deregister services, as they would themselves",
		Example: "  holdfast service deregister 550e8400-e29b-41d4-a716-446655440000",
		Do: func(ctx context.Context, c *client.Client, id string) error {
			_, err := c.Registry().DeregisterService(ctx, &holdfastv1.DeregisterServiceRequest{Id: id})
			return err
		},
	})
}

// watchServices prints the services that match, and each again when it changes. It follows the
// stream of changes, so none is missed.
func watchServices(ctx context.Context, a *app.App, c *client.Client, l *output.Listing) error {
	ctx, cancel := a.Patience(ctx, 0)
	defer cancel()
	k := kinds.Service()
	t, header := k.NewTable(&l.Flags), true
	first := output.FirstOf(l.Limit)
	err := c.WatchServices(ctx, l.Filter, 0, func(e *holdfastv1.ServiceEvent) error {
		if !first(k.Name(e.GetService())) {
			return nil
		}
		defer func() { header = false }()
		return output.PrintChanged(a, &l.Flags, k, t, []*holdfastv1.Service{e.GetService()}, header)
	})
	if ctx.Err() != nil {
		return output.Ended(ctx, ctx.Err())
	}
	return app.Failed(err, "watch services")
}
