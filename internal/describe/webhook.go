package describe

import (
	"time"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// webhookLate is how long an event may wait for a webhook that is ok: longer than a try may take,
// and than the leader takes to record a delivery.
const webhookLate = 30 * time.Second

// WebhookLate reports whether an event has waited too long for a webhook.
func WebhookLate(w *holdfastv1.Webhook, now time.Time) bool {
	since := w.GetWaitingSince()
	return since != nil && now.Sub(since.AsTime()) >= webhookLate
}
