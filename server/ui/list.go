package ui

import (
	"fmt"
	"strconv"
	"strings"

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
	Total         string // "1 to 100 of 1 204 tokens"
	Sum           string // of all entries, not only of the page
	Next, First   string
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
		from := firstRow(q.Get("from"))
		if part.Next != "" {
			b.Next = display.Link(path, "filter", b.Filter, "page", part.Next, "from", strconv.Itoa(from+len(part.Rows)))
		}
		if q.Get("page") != "" {
			b.First = display.Link(path, "filter", b.Filter)
		}
		total, all := from-1+len(part.Rows), true
		if part.Next != "" {
			if total, all, err = lists.Total(v.ctx, v.read.conn, k, b.Filter); err != nil {
				return err
			}
		}
		b.Total = totalOf(from, len(part.Rows), total, all, k.One, k.Many)
		if sum != nil {
			if b.Sum, err = sum(v, b.Filter); err != nil {
				return err
			}
		}
		return v.page("list", k.Title, k.Name, b, nil)
	}
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
	count := display.Count(total)
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
	return fmt.Sprintf("%s to %s of %s %s", display.Count(from), display.Count(from+rows-1), count, many)
}

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
	b.Rows, b.Total = lists.AlertRows(alerts), fmt.Sprintf("%d of %d alerts are firing", firing, len(alerts))
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
	plans, err := v.read.plans.ListPlans(v.ctx, &holdfastv1.ListPlansRequest{PageSize: pageSize})
	if err != nil {
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
	f.Plans, f.Active, f.Recent = plans.GetPlans(), active.GetRuns(), recent.GetRuns()
	if f.WebhooksHidden = !v.rules.may(v.who, "WebhookService/ListWebhooks"); f.WebhooksHidden {
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
