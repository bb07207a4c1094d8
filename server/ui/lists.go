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
	return search(v, "services", "Services", func(filter, page string) ([]*holdfastv1.Service, string, error) {
		resp, err := v.read.registry.ListServices(v.ctx, &holdfastv1.ListServicesRequest{
			Filter: filter, PageSize: rows, PageToken: page,
		})
		return resp.GetServices(), resp.GetNextPageToken(), err
	}, "active", "active = true", "inactive", "active = false")
}

func (d *dashboard) audit(v *visit) error {
	return search(v, "audit", "Audit", func(filter, page string) ([]*holdfastv1.AuditEvent, string, error) {
		resp, err := v.read.audit.ListAuditEvents(v.ctx, &holdfastv1.ListAuditEventsRequest{
			Filter: filter, PageSize: rows, PageToken: page,
		})
		return resp.GetEvents(), resp.GetNextPageToken(), err
	}, "refused", "outcome != OK", "runs started", `method = "*StartRun"`)
}

// search shows a page of a list with a filter. hints are the names and filters of links.
func search[T any](v *visit, name, title string,
	list func(filter, page string) (items []T, next string, err error), hints ...string,
) error {
	q, path := v.r.URL.Query(), "/ui/"+name
	b := searchBody[T]{Filter: strings.TrimSpace(q.Get("filter"))}
	items, next, err := list(b.Filter, q.Get("page"))
	b.Items, b.FilterInvalid = items, err != nil && b.Filter != ""
	if next != "" {
		b.Next = display.Link(path, "filter", b.Filter, "page", next)
	}
	for i := 0; i < len(hints); i += 2 {
		b.Hints = append(b.Hints, hint{hints[i], display.Link(path, "filter", hints[i+1])})
	}
	return v.page(name, title, name, b, err)
}
