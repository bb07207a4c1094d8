package cli

import (
	"context"
	"strconv"
	"time"

	"github.com/holdfast-metal/holdfast/client"
	"github.com/holdfast-metal/holdfast/internal/cli/render"
	"github.com/holdfast-metal/holdfast/internal/describe"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

func webhookKind() kind[*holdfastv1.Webhook] {
	return kind[*holdfastv1.Webhook]{
		noun: "webhook", list: "webhooks",
		name:   (*holdfastv1.Webhook).GetName,
		header: []string{"WEBHOOK", "STATE", "BEHIND", "FAILURES", "FILTER", "ERROR"},
		wide:   []string{"URL", "SECRET", "MISSED", "AT", "TRIED"},
		row: func(w *holdfastv1.Webhook, now time.Time) []any {
			return []any{
				w.GetName(), webhookState(w, now), number(w.GetBehind()), number(w.GetFailures()), w.GetFilter(),
				w.GetLastError(),
				w.GetUrl(), w.GetSecretRef(), number(w.GetMissed()), strconv.FormatUint(w.GetCursor(), 10),
				age(now, w.GetTriedAt()),
			}
		},
		page: func(ctx context.Context, c *client.Client, q query) ([]*holdfastv1.Webhook, string, error) {
			r, err := c.Webhooks().ListWebhooks(ctx, &holdfastv1.ListWebhooksRequest{PageSize: q.size,
				PageToken: q.token})
			return r.GetWebhooks(), r.GetNextPageToken(), err
		},
		get: getWebhook,
	}
}

func webhookState(w *holdfastv1.Webhook, now time.Time) render.Text {
	switch {
	case w.GetDisabled():
		return plain("disabled")
	case w.GetFailures() > 0:
		return render.T("failing", render.Red)
	case describe.WebhookLate(w, now):
		return render.T("waiting", render.Yellow)
	}
	return render.T("ok", render.Green)
}

func getWebhook(ctx context.Context, c *client.Client, id string) (*holdfastv1.Webhook, error) {
	return c.Webhooks().GetWebhook(ctx, &holdfastv1.GetWebhookRequest{Name: id})
}
