package ui

import (
	"strings"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/server/ui/internal/display"
)

// poolsBody is the page of pools and marketplace providers.
type poolsBody struct {
	Pools     []*holdfastv1.Pool
	Providers []*holdfastv1.PlatformProvider
	Next      string
}

func (d *dashboard) pools(v *visit) error {
	q := v.r.URL.Query()
	resp, err := v.read.pools.ListPools(v.ctx, &holdfastv1.ListPoolsRequest{PageSize: rows, PageToken: q.Get("page")})
	if err != nil {
		return v.page("pools", "Pools & GPUs", "pools", poolsBody{}, err)
	}
	b := poolsBody{Pools: resp.GetPools()}
	if t := resp.GetNextPageToken(); t != "" {
		b.Next = display.Link("/ui/pools", "page", t)
	}
	providers, err := v.read.pools.ListProviders(v.ctx, &holdfastv1.ListProvidersRequest{PageSize: rows})
	b.Providers = providers.GetProviders()
	return v.page("pools", "Pools & GPUs", "pools", b, err)
}

// searchBody is a list with a filter.
type searchBody[T any] struct {
	Filter, Next  string
	Items         []T
	FilterInvalid bool
	Hints         []hint
}

func (d *dashboard) services(v *visit) error {
	q := v.r.URL.Query()
	b := searchBody[*holdfastv1.Service]{Filter: strings.TrimSpace(q.Get("filter"))}
	resp, err := v.read.registry.ListServices(v.ctx, &holdfastv1.ListServicesRequest{
		Filter:    b.Filter,
		PageSize:  rows,
		PageToken: q.Get("page"),
	})
	b.Items, b.FilterInvalid = resp.GetServices(), err != nil && b.Filter != ""
	if t := resp.GetNextPageToken(); t != "" {
		b.Next = display.Link("/ui/services", "filter", b.Filter, "page", t)
	}
	b.Hints = []hint{
		{"active", display.Link("/ui/services", "filter", "active = true")},
		{"inactive", display.Link("/ui/services", "filter", "active = false")},
	}
	return v.page("services", "Services", "services", b, err)
}

func (d *dashboard) audit(v *visit) error {
	q := v.r.URL.Query()
	b := searchBody[*holdfastv1.AuditEvent]{Filter: strings.TrimSpace(q.Get("filter"))}
	resp, err := v.read.audit.ListAuditEvents(v.ctx, &holdfastv1.ListAuditEventsRequest{
		Filter:    b.Filter,
		PageSize:  rows,
		PageToken: q.Get("page"),
	})
	b.Items, b.FilterInvalid = resp.GetEvents(), err != nil && b.Filter != ""
	if t := resp.GetNextPageToken(); t != "" {
		b.Next = display.Link("/ui/audit", "filter", b.Filter, "page", t)
	}
	b.Hints = []hint{
		{"refused", display.Link("/ui/audit", "filter", "outcome != OK")},
		{"runs started", display.Link("/ui/audit", "filter", `method = "*StartRun"`)},
	}
	return v.page("audit", "Audit", "audit", b, err)
}
