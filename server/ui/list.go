package ui

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"google.golang.org/grpc"

	"github.com/holdfast-metal/holdfast/internal/describe"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/server/ui/internal/display"
	"github.com/holdfast-metal/holdfast/server/ui/internal/fleet"
	"github.com/holdfast-metal/holdfast/server/ui/internal/health"
	"github.com/holdfast-metal/holdfast/server/ui/internal/lists"
)

// listBody is a page with one list.
type listBody struct {
	lists.Kind
	Filter        string
	FilterInvalid bool
	Hints         []hint
	Rows          []lists.Row
	Sum           string // of all entries, not only of the page
	pageLinks
}

// pageLinks is the position of a page in its list.
type pageLinks struct {
	Total       string // "1 to 100 of 1 204 tokens"
	Next, First string // links; empty: none
}

// links returns the position of the page that the URL selects. k.Read counts the entries.
func (v *visit) links(path string, k lists.Kind, filter string, part lists.Part) (b pageLinks, err error) {
	q := v.r.URL.Query()
	from := firstRow(q.Get("from"))
	if q.Get("page") != "" {
		b.First = display.Link(path, "filter", filter)
	}
	total, all := from-1+len(part.Rows), true
	if part.Next != "" {
		b.Next = display.Link(path, "filter", filter, "page", part.Next, "from", strconv.Itoa(from+len(part.Rows)))
		if total, all, err = lists.Total(v.ctx, v.read.conn, k, filter); err != nil {
			return b, err
		}
	}
	b.Total = totalOf(from, len(part.Rows), total, all, k.One, k.Many)
	return b, nil
}

// list returns the handler of the page of a list. sum may be nil; it describes all entries that
// match a filter.
func (d *dashboard) list(k lists.Kind, sum func(v *visit, filter string) (string, error)) func(*visit) error {
	return func(v *visit) error {
		q, path := v.r.URL.Query(), "/ui/"+k.Name
		b := listBody{Kind: k, Filter: strings.TrimSpace(q.Get("filter"))}
		for _, h := range k.Hints {
			b.Hints = append(b.Hints, hint{h.Text, display.Link(path, "filter", h.Filter)})
		}
		part, err := k.Read(v.ctx, v.read.conn, lists.Query{Filter: b.Filter, Page: q.Get("page"), Size: rows})
		if err != nil {
			b.FilterInvalid = b.Filter != ""
			return v.page("list", k.Title, k.Name, b, err)
		}
		b.Rows = part.Rows
		if b.pageLinks, err = v.links(path, k, b.Filter, part); err != nil {
			return err
		}
		if sum != nil {
			if b.Sum, err = sum(v, b.Filter); err != nil {
				return err
			}
		}
		return v.page("list", k.Title, k.Name, b, nil)
	}
}

// listed reads the page of a list that the URL selects. k has the names of the entries.
func listed[T any](
	v *visit, path string, k lists.Kind, filter string, read func(context.Context, lists.Query) ([]T, string, error),
) ([]T, pageLinks, error) {
	k.Read = func(ctx context.Context, _ grpc.ClientConnInterface, q lists.Query) (lists.Part, error) {
		items, next, err := read(ctx, q)
		return lists.Part{Rows: make([]lists.Row, len(items)), Next: next}, err
	}
	items, next, err := read(v.ctx, lists.Query{Filter: filter, Page: v.r.URL.Query().Get("page"), Size: rows})
	if err != nil {
		return nil, pageLinks{}, err
	}
	at, err := v.links(path, k, filter, lists.Part{Rows: make([]lists.Row, len(items)), Next: next})
	return items, at, err
}

// firstRow returns the number of the first row of a page, from 1.
func firstRow(from string) int {
	n, err := strconv.Atoi(from)
	if err != nil || n < 1 || n > 1e9 {
		return 1
	}
	return n
}

// totalOf describes a part of a list of one or many: "1 to 100 of more than 5 000 runs". It
// returns "" for an empty list.
func totalOf(from, rows, total int, all bool, one, many string) string {
	count := describe.Count(total)
	if !all {
		count = "more than " + count
	}
	switch {
	case rows == 0:
		return ""
	case from == 1 && all && total == rows && rows == 1:
		return "1 " + one
	case from == 1 && all && total == rows:
		return count + " " + many
	}
	return fmt.Sprintf("%s to %s of %s %s", describe.Count(from), describe.Count(from+rows-1), count, many)
}

// poolsBody is the page of pools and marketplace providers.
type poolsBody struct {
	Pools     []*holdfastv1.Pool
	Providers []*holdfastv1.PlatformProvider
	pageLinks
}

func (d *dashboard) pools(v *visit) error {
	var b poolsBody
	var err error
	b.Pools, b.pageLinks, err = listed(v, "/ui/pools", lists.Kind{One: "pool", Many: "pools"}, "",
		func(ctx context.Context, q lists.Query) ([]*holdfastv1.Pool, string, error) {
			resp, err := v.read.pools.ListPools(ctx, &holdfastv1.ListPoolsRequest{PageSize: q.Size, PageToken: q.Page})
			return resp.GetPools(), resp.GetNextPageToken(), err
		})
	if err != nil {
		return v.page("pools", "Pools", "pools", b, err)
	}
	providers, err := v.read.pools.ListProviders(v.ctx, &holdfastv1.ListProvidersRequest{PageSize: rows})
	b.Providers = providers.GetProviders()
	return v.page("pools", "Pools", "pools", b, err)
}

// alerts shows the state of the alerts that this peer can evaluate.
func (d *dashboard) alerts(v *visit) error {
	k := lists.Alerts()
	b := listBody{Kind: k}
	facts, err := v.facts()
	if err != nil {
		return v.page("list", k.Title, k.Name, b, err)
	}
	alerts, firing := health.Alerts(facts), 0
	for _, a := range alerts {
		if len(a.Firing) > 0 {
			firing++
		}
	}
	b.Rows, b.Sum = lists.AlertRows(alerts), fmt.Sprintf("%d of %d alerts firing", firing, len(alerts))
	return v.page("list", k.Title, k.Name, b, nil)
}

// facts reads what alerts are computed from.
func (v *visit) facts() (f health.Facts, err error) {
	f.Now = v.now()
	if f.Status, err = v.health.Status(v.ctx, v.read.cluster); err != nil {
		return f, err
	}
	machines, err := v.fleets.Of(v.ctx, v.who, v.read.machines)
	if err != nil {
		return f, err
	}
	f.Urgent = machines.Urgent
	if f.Plans, err = v.allPlans(); err != nil {
		return f, err
	}
	active, err := v.read.runs.ListRuns(v.ctx, &holdfastv1.ListRunsRequest{Filter: activeRuns, PageSize: pageSize})
	if err != nil {
		return f, err
	}
	recent, err := v.read.runs.ListRuns(v.ctx, &holdfastv1.ListRunsRequest{PageSize: pageSize})
	if err != nil {
		return f, err
	}
	f.Active, f.Recent = active.GetRuns(), recent.GetRuns()
	if f.WebhooksHidden = !v.may("WebhookService/ListWebhooks"); f.WebhooksHidden {
		return f, nil
	}
	hooks, err := holdfastv1.NewWebhookServiceClient(v.read.conn).ListWebhooks(v.ctx,
		&holdfastv1.ListWebhooksRequest{PageSize: pageSize})
	f.Webhooks = hooks.GetWebhooks()
	return f, err
}

// hardwareSum describes the hardware of the machines that match a filter.
func hardwareSum(v *visit, filter string) (string, error) {
	if filter == "" {
		f, err := v.fleets.Of(v.ctx, v.who, v.read.machines)
		if err != nil {
			return "", err
		}
		return f.Hardware.String(), nil
	}
	h, all, err := fleet.Sum(v.ctx, v.read.machines, filter, mostSorted)
	text := h.String()
	if !all && text != "" {
		text += fmt.Sprintf(" (of the first %d machines)", mostSorted)
	}
	return text, err
}
