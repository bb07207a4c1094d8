package kinds

import (
	"context"
	"strconv"
	"time"

	"github.com/holdfast-metal/holdfast/client"
	"github.com/holdfast-metal/holdfast/internal/cli/app"
	"github.com/holdfast-metal/holdfast/internal/cli/output"
	"github.com/holdfast-metal/holdfast/internal/cli/render"
	"github.com/holdfast-metal/holdfast/internal/describe"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// Webhook returns the kind of webhooks.
func Webhook() output.Kind[*holdfastv1.Webhook] {
	return output.Kind[*holdfastv1.Webhook]{
		Noun: "webhook", List: "webhooks",
		Name:   (*holdfastv1.Webhook).GetName,
		Header: []string{"WEBHOOK", "STATE", "BEHIND", "FAILURES", "FILTER", "ERROR"},
		Wide:   []string{"URL", "SECRET", "MISSED", "AT", "TRIED"},
		Row: func(w *holdfastv1.Webhook, now time.Time) []any {
			return []any{
				w.GetName(), webhookState(w, now), app.Number(w.GetBehind()), app.Number(w.GetFailures()), w.GetFilter(),
				w.GetLastError(),
				w.GetUrl(), w.GetSecretRef(), app.Number(w.GetMissed()), strconv.FormatUint(w.GetCursor(), 10),
				app.Age(now, w.GetTriedAt()),
			}
		},
		Page: func(ctx context.Context, c *client.Client, q output.Query) ([]*holdfastv1.Webhook, string, error) {
			r, err := c.Webhooks().ListWebhooks(ctx, &holdfastv1.ListWebhooksRequest{PageSize: q.Size,
				PageToken: q.Token})
			return r.GetWebhooks(), r.GetNextPageToken(), err
		},
		Get: getWebhook,
	}
}

func webhookState(w *holdfastv1.Webhook, now time.Time) render.Text {
	switch {
	case w.GetDisabled():
		return app.Plain("disabled")
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
