package kinds

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/holdfast-metal/holdfast/client"
	"github.com/holdfast-metal/holdfast/internal/cli/app"
	"github.com/holdfast-metal/holdfast/internal/cli/output"
	"github.com/holdfast-metal/holdfast/internal/cli/render"
	"github.com/holdfast-metal/holdfast/internal/describe"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// Pool returns the kind of pools.
func Pool() output.Kind[*holdfastv1.Pool] {
	return output.Kind[*holdfastv1.Pool]{
		Noun: "pool", List: "pools",
		Name:   (*holdfastv1.Pool).GetPoolId,
		Header: []string{"POOL", "STATUS", "MACHINES", "READY", "GPUS", "FREE VRAM", "WORKERS", "REGION", "HEARTBEAT"},
		Wide:   []string{"PROVIDER", "GPU TYPE", "ENDPOINT", "VERSION", "REASON"},
		Row: func(p *holdfastv1.Pool, now time.Time) []any {
			return []any{
				p.GetPoolId(), poolStatus(p.GetStatus()), p.GetMachines(), p.GetMachinesReady(), len(p.GetGpus()),
				vram(p), workers(p), p.GetRegion(), app.Age(now, p.GetLastHeartbeat()),
				p.GetProvider(), p.GetGpuType(), p.GetEndpoint(), p.GetVersion(), p.GetStatusReason(),
			}
		},
		Page: func(ctx context.Context, c *client.Client, q output.Query) ([]*holdfastv1.Pool, string, error) {
			return PageOfPools(ctx, c, q, &holdfastv1.ListPoolsRequest{})
		},
		Get: getPool,
	}
}

func vram(p *holdfastv1.Pool) string {
	if len(p.GetGpus()) == 0 {
		return ""
	}
	return describe.AtLeast(p.GetAvailableVramPartial(), fmt.Sprintf("%d GB", p.GetAvailableVramGb()))
}

func workers(p *holdfastv1.Pool) string {
	if p.GetWorkersTotal() == 0 {
		return ""
	}
	return fmt.Sprintf("%d/%d busy", p.GetWorkersBusy(), p.GetWorkersTotal())
}

func poolStatus(s holdfastv1.Pool_Status) render.Text {
	name := strings.ToLower(s.String())
	switch s {
	case holdfastv1.Pool_STATUS_UNSPECIFIED:
		return app.Plain("declared")
	case holdfastv1.Pool_HEALTHY:
		return render.T(name, render.Green)
	case holdfastv1.Pool_UNAVAILABLE:
		return render.T(name, render.Red)
	}
	return app.Plain(name)
}

// PageOfPools requests a page of the pools that r selects.
func PageOfPools(
	ctx context.Context, c *client.Client, q output.Query, r *holdfastv1.ListPoolsRequest,
) ([]*holdfastv1.Pool, string, error) {
	r.Filter, r.PageSize, r.PageToken = q.Filter, q.Size, q.Token
	resp, err := c.Pools().ListPools(ctx, r)
	return resp.GetPools(), resp.GetNextPageToken(), err
}

func getPool(ctx context.Context, c *client.Client, id string) (*holdfastv1.Pool, error) {
	return c.Pools().GetPool(ctx, &holdfastv1.GetPoolRequest{PoolId: id})
}
