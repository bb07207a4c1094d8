package lists

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"time"

	"google.golang.org/grpc"

	"github.com/holdfast-metal/holdfast/internal/describe"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/server/ui/internal/display"
)

func webhooks() Kind {
	return Kind{
		Name: "webhooks", Title: "Webhooks", One: "webhook", Many: "webhooks",
		Method: "WebhookService/ListWebhooks",
		Create: `holdfast webhook put chat --url https://hooks.example/in --filter 'type = "run.failed"'`,
		Note: "Position is the number of the last event that was delivered, or that the filter excludes. " +
			"Waiting is the number of later events that match the filter, up to 1\u00a0000.",
		Columns: []string{
			"Webhook", "State", "URL", "Filter", "Position", "Waiting", "Missed", "Signed with", "Created", "By", "Last error",
		},
		Read: func(ctx context.Context, c grpc.ClientConnInterface, q Query) (Part, error) {
			resp, err := holdfastv1.NewWebhookServiceClient(c).ListWebhooks(ctx, &holdfastv1.ListWebhooksRequest{
				PageSize: q.Size, PageToken: q.Page,
			})
			return Part{rowsOf(resp.GetWebhooks(), webhookRow), resp.GetNextPageToken()}, err
		},
	}
}

// webhookState returns the state of a webhook. One for which events wait is not ok for long.
func webhookState(w *holdfastv1.Webhook, now time.Time) display.Cell {
	ok := display.Badge("ok", "active")
	switch n := w.GetFailures(); {
	case w.GetDisabled():
		return display.Badge("disabled", "")
	case n == 1:
		return display.Badge("failing", "failed").And(display.Faint("1 try, the last")).And(display.When(w.GetTriedAt()))
	case n > 1:
		return display.Badge("failing", "failed").And(display.Faint(fmt.Sprintf("%d tries, the last", n))).
			And(display.When(w.GetTriedAt()))
	case describe.WebhookLate(w, now):
		waiting := describe.Count(int(w.GetWaiting())) + " waiting"
		return display.Badge(waiting, "maintenance").And(display.For(w.GetWaitingSince()))
	case w.GetTriedAt() != nil:
		return ok.And(display.Faint("recovered")).And(display.When(w.GetTriedAt()))
	}
	return ok
}

func webhookRow(w *holdfastv1.Webhook) Row {
	delivered := display.Text("event " + strconv.FormatUint(w.GetCursor(), 10))
	if w.GetCursor() == 0 {
		delivered = display.Text("none")
	}
	url := display.Long(w.GetUrl())
	if plain, _ := describe.OpenWebhook(w); plain != "" {
		url = url.And(display.Faint("not encrypted"))
	}
	return Row{w.GetName(), []display.Cell{
		display.ID(w.GetName()),
		webhookState(w, time.Now()),
		url,
		display.Long(cmp.Or(w.GetFilter(), "all events")),
		delivered,
		display.Number(w.GetWaiting()),
		display.Number(w.GetMissed()),
		display.Text(cmp.Or(w.GetSecretRef(), "not signed")),
		display.When(w.GetCreatedAt()),
		display.Text(w.GetCreatedBy()),
		display.Long(w.GetLastError()),
	}}
}
