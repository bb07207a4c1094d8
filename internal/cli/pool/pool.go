package pool

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-metal/holdfast/client"
	"github.com/holdfast-metal/holdfast/internal/cli/app"
	"github.com/holdfast-metal/holdfast/internal/cli/kinds"
	"github.com/holdfast-metal/holdfast/internal/cli/output"
	"github.com/holdfast-metal/holdfast/internal/cli/render"
	"github.com/holdfast-metal/holdfast/internal/describe"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// Command returns the commands of pools, with that which edits one.
func Command(a *app.App, edit *cobra.Command) *cobra.Command {
	return app.Parent(&cobra.Command{
		Use: "pool", Aliases: []string{"pools"},
		Short: "Manage pools of machines and of GPU servers",
		Example: `  holdfast pool create gpu --provider generic --gpu-type H100
  holdfast pool list --free-vram 24 --gpu-model "RTX 4090" --region EU
  holdfast pool get gpu`,
	}, poolCreate(a), edit, poolList(a), poolGet(a), poolDelete(a), poolProviders(a), poolDeleteProvider(a))
}

func poolCreate(a *app.App) *cobra.Command {
	var o output.Flags
	p := &holdfastv1.Pool{}
	cmd := &cobra.Command{
		Use: "create POOL", Args: app.Exactly("POOL"),
		Short: "Create a pool, or change it",
		Example: `  holdfast pool create gpu --provider generic --gpu-type H100
  holdfast pool create cpu --label site=fra1`,
		RunE: a.Online(func(ctx context.Context, c *client.Client, args []string) error {
			p.PoolId = args[0]
			made, err := c.Pools().CreatePool(ctx, &holdfastv1.CreatePoolRequest{Pool: p})
			if err != nil {
				return app.Failed(err, "create pool %s", args[0])
			}
			return output.PrintOne(a, &o, kinds.Pool(), made)
		}),
	}
	o.Register(cmd, output.Shapes(kinds.Pool())...)
	f := cmd.Flags()
	f.StringVar(&p.Provider, "provider", "", "provider of its machines (default: generic)")
	f.StringVar(&p.GpuType, "gpu-type", "", "GPU model of its machines, such as H100")
	f.StringToStringVar(&p.Labels, "label", nil, "label `key=value`; repeatable")
	f.Lookup("label").DefValue = "" // the help would show []
	return cmd
}

func poolList(a *app.App) *cobra.Command {
	r := &holdfastv1.ListPoolsRequest{}
	k := kinds.Pool()
	k.Page = func(ctx context.Context, c *client.Client, q output.Query) ([]*holdfastv1.Pool, string, error) {
		return kinds.PageOfPools(ctx, c, q, r)
	}
	cmd := output.ListCommand(a, output.Lister[*holdfastv1.Pool]{
		Short: "List pools by id",
		Example: `  holdfast pool list
  holdfast pool list --free-vram 24 --gpu-model "RTX 4090"
  holdfast pool list --filter 'status = UNAVAILABLE' -o wide
  holdfast pool list -w`,
		Kind: k, Filter: "status = HEALTHY",
		Watch: func(ctx context.Context, c *client.Client, l *output.Listing) error {
			return output.WatchPolled(ctx, a, &l.Flags, k, output.WatchInterval, steadyPool,
				func() ([]*holdfastv1.Pool, error) {
					items, err := k.All(ctx, c, l.Filter, l.Limit)
					return items, app.Failed(err, "list pools")
				})
		},
	})
	f := cmd.Flags()
	f.Float64Var(&r.MinAvailableVramGb, "free-vram", 0, "only pools with a GPU that has this many `gigabytes` free")
	f.StringVar(&r.GpuModel, "gpu-model", "", "only pools with this GPU")
	f.StringVar(&r.Region, "region", "", "only pools of this region")
	return cmd
}

// steadyPool returns a pool without the fields that each heartbeat changes.
func steadyPool(p *holdfastv1.Pool) *holdfastv1.Pool {
	p = proto.CloneOf(p)
	p.LastHeartbeat, p.UptimeSeconds, p.UpdatedAt = nil, 0, nil
	for _, g := range p.GetGpus() {
		g.TemperatureCelsius = nil
	}
	return p
}

func poolGet(a *app.App) *cobra.Command {
	return output.GetCommand(a, output.Getter[*holdfastv1.Pool]{
		Short: "Show a pool and its GPUs", Example: "  holdfast pool get gpu\n  holdfast pool get gpu -o yaml",
		Kind: kinds.Pool(),
		More: func(p *holdfastv1.Pool) []*render.Table { return []*render.Table{gpus(p)} },
	})
}

func gpus(p *holdfastv1.Pool) *render.Table {
	t := render.NewTable("GPU", "MODEL", "VRAM", "FREE", "TEMPERATURE", "WORKERS")
	for _, g := range p.GetGpus() {
		t.Row(g.GetId(), g.GetModel(), describe.Quantity(g.TotalVramGb, "GB"),
			describe.Quantity(g.AvailableVramGb, "GB"), describe.Quantity(g.TemperatureCelsius, "°C"),
			strings.Join(g.GetWorkers(), ", "))
	}
	return t
}

func poolDelete(a *app.App) *cobra.Command {
	return output.EachCommand(a, output.Each[*holdfastv1.Pool]{
		Kind:  kinds.Pool(),
		Short: "Delete declared pools that no machine is in", Example: "  holdfast pool delete gpu",
		Do: func(ctx context.Context, c *client.Client, id string) error {
			_, err := c.Pools().DeletePool(ctx, &holdfastv1.DeletePoolRequest{PoolId: id})
			return err
		},
	})
}

func providerKind() output.Kind[*holdfastv1.PlatformProvider] {
	return output.Kind[*holdfastv1.PlatformProvider]{
		Noun: "provider", List: "providers",
		Name:   (*holdfastv1.PlatformProvider).GetProviderId,
		Header: []string{"PROVIDER", "POOL", "GPUS", "VRAM", "PRICE/HOUR", "REGION", "ENDPOINT", "UPDATED"},
		Row: func(p *holdfastv1.PlatformProvider, now time.Time) []any {
			price := strings.TrimSpace(fmt.Sprintf("%g %s", p.GetPricePerHour(), p.GetCurrency()))
			return []any{
				p.GetProviderId(), p.GetPoolId(), p.GetTotalGpus(), fmt.Sprintf("%g GB", p.GetTotalVramGb()), price,
				p.GetRegion(), p.GetEndpoint(), app.Age(now, p.GetUpdatedAt()),
			}
		},
		Page: func(ctx context.Context, c *client.Client, q output.Query) ([]*holdfastv1.PlatformProvider, string, error) {
			r, err := c.Pools().ListProviders(ctx, &holdfastv1.ListProvidersRequest{PageSize: q.Size,
				PageToken: q.Token})
			return r.GetProviders(), r.GetNextPageToken(), err
		},
		Get: getProvider,
	}
}

// getProvider returns a provider. The API only lists them.
func getProvider(ctx context.Context, c *client.Client, id string) (*holdfastv1.PlatformProvider, error) {
	all, err := providerKind().All(ctx, c, "", 0)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(all, func(p *holdfastv1.PlatformProvider) bool { return p.GetProviderId() == id })
	if i < 0 {
		return nil, status.Errorf(codes.NotFound, "provider %q not found", id)
	}
	return all[i], nil
}

func poolProviders(a *app.App) *cobra.Command {
	cmd := output.ListCommand(a, output.Lister[*holdfastv1.PlatformProvider]{
		Short:   "List the marketplace providers that pool managers and operators registered",
		Example: "  holdfast pool providers",
		Kind:    providerKind(),
	})
	cmd.Use, cmd.Aliases = "providers", nil
	return cmd
}

func poolDeleteProvider(a *app.App) *cobra.Command {
	cmd := output.EachCommand(a, output.Each[*holdfastv1.PlatformProvider]{
		Kind:    providerKind(),
		Short:   "Delete marketplace providers; one whose manager still runs registers again",
		Example: "  holdfast pool delete-provider acme",
		Do: func(ctx context.Context, c *client.Client, id string) error {
			_, err := c.Pools().DeleteProvider(ctx, &holdfastv1.DeleteProviderRequest{ProviderId: id})
			return err
		},
	})
	cmd.Use = strings.Replace(cmd.Use, "delete", "delete-provider", 1)
	return cmd
}
