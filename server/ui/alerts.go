package ui

import (
	"fmt"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/server/ui/internal/fleet"
	"github.com/holdfast-metal/holdfast/server/ui/internal/health"
	"github.com/holdfast-metal/holdfast/server/ui/internal/lists"
)

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
