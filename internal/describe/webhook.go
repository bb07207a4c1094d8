package describe

import (
	"strings"
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

// OpenWebhook returns in words that the messages of a webhook are not encrypted or not signed,
// with the remedy. Both are empty if they are.
func OpenWebhook(w *holdfastv1.Webhook) (url, secret string) {
	if strings.HasPrefix(strings.ToLower(w.GetUrl()), "http:") {
		url = "the messages are not encrypted: use an https URL"
	}
	if w.GetSecretRef() == "" {
		secret = "the messages are not signed, so the receiver cannot tell their sender: name a secret of type token"
	}
	return url, secret
}
