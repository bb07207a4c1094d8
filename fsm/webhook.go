package fsm

import (
	"iter"

	"google.golang.org/protobuf/proto"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// Bounds of webhooks: the leader posts to each of them on its own.
const (
	maxWebhooks    = 100
	maxWebhookURL  = 2048
	maxWebhookText = 4096 // of a filter
)

func webhookSchema() *schema[*holdfastv1.Webhook] {
	return &schema[*holdfastv1.Webhook]{kind: internalv1.SnapshotRecord_WEBHOOKS, key: (*holdfastv1.Webhook).GetName}
}

func webhookNotFound(name string) *Error {
	return refuse(NotFound, "WEBHOOK_NOT_FOUND", "webhook %q not found", ident(name)).with("webhook", ident(name))
}

// ValidateWebhook reports what is wrong with what somebody says of a webhook. Filters are the
// server's to read.
func ValidateWebhook(w *holdfastv1.Webhook) []FieldViolation {
	var bad []FieldViolation
	add := func(field, what string) {
		bad = append(bad, FieldViolation{Field: "webhook." + field, Description: what})
	}
	if !validName(w.GetName(), 64) {
		add("name", "has to be 1 to 64 letters, digits, '.', '_', '-'")
	}
	switch u, ok := parseURL(w.GetUrl()); {
	case !ok || len(w.GetUrl()) > maxWebhookURL || !u.isWeb():
		add("url", "has to be an http or https URL of at most 2048 bytes")
	case u.user:
		add("url", "holds credentials: sign the messages with secret_ref instead")
	}
	if len(w.GetFilter()) > maxWebhookText {
		add("filter", "is longer than 4096 bytes")
	}
	if w.GetSecretRef() != "" && !validSecretName(w.GetSecretRef()) {
		add("secret_ref", "is not the name of a secret")
	}
	return bad
}

// putWebhook makes a webhook, or changes what somebody says of one. A new one hears of what happens
// after it.
func (t *tx) putWebhook(c *internalv1.PutWebhook) (*holdfastv1.Webhook, *Error) {
	in := c.GetWebhook()
	if err := Invalid(ValidateWebhook(in)); err != nil {
		return nil, err
	}
	if ref := in.GetSecretRef(); ref != "" && !t.secrets.has(ref) {
		return nil, refuse(FailedPrecondition, "SECRET_NOT_FOUND", "secret %q, which is to sign the messages, is not there: store it first", ref).with("secret", ref)
	}
	w, exists := t.webhooks.get(in.GetName())
	if !exists {
		if t.webhooks.len() >= maxWebhooks {
			return nil, refuse(FailedPrecondition, "TOO_MANY_WEBHOOKS", "there are %d webhooks, and no more are allowed: delete some, or tell several receivers from one", maxWebhooks)
		}
		w = &holdfastv1.Webhook{Name: in.GetName(), Cursor: t.meta.GetLastNews(), CreatedAt: t.now, CreatedBy: clip(t.cmd.GetPrincipal(), maxAuditThing)}
	}
	had := proto.CloneOf(w)
	w.Url, w.Filter, w.SecretRef, w.Disabled = in.GetUrl(), in.GetFilter(), in.GetSecretRef(), in.GetDisabled()
	if exists && proto.Equal(had, w) {
		return t.withBehind(w), nil
	}
	w.UpdatedAt = t.now
	t.webhooks.put(w)
	return t.withBehind(w), nil
}

func (t *tx) deleteWebhook(c *internalv1.DeleteWebhook) *Error {
	if !t.webhooks.has(c.GetName()) {
		return webhookNotFound(c.GetName())
	}
	t.webhooks.delete(c.GetName())
	return nil
}

// noteDelivery records how far a webhook is. It never goes back, nor beyond what has happened.
func (t *tx) noteDelivery(c *internalv1.NoteDelivery) *Error {
	w, ok := t.webhooks.get(c.GetName())
	if !ok {
		return webhookNotFound(c.GetName())
	}
	if c.GetCursor() < w.GetCursor() || c.GetCursor() > t.meta.GetLastNews() {
		return refuse(FailedPrecondition, "CURSOR_MISMATCH", "webhook %q is at event %d of %d: %d is not after it", w.GetName(), w.GetCursor(), t.meta.GetLastNews(), c.GetCursor())
	}
	if w.GetFailures() != c.GetFailures() {
		w.TriedAt = t.now
	}
	w.Cursor, w.Failures, w.LastError = c.GetCursor(), c.GetFailures(), clip(c.GetLastError(), maxAuditThing)
	w.Missed = max(w.GetMissed()+c.GetMissed(), c.GetMissedTotal())
	t.webhooks.put(w)
	return nil
}

// withBehind fills in what is computed on read.
func (s *state) withBehind(w *holdfastv1.Webhook) *holdfastv1.Webhook {
	if last := s.meta.GetLastNews(); last > w.GetCursor() {
		w.Behind = last - w.GetCursor()
	}
	return w
}

// Webhook returns a webhook, with how far it is behind.
func (v *View) Webhook(name string) (*holdfastv1.Webhook, bool) {
	w, ok := v.webhooks.get(name)
	if !ok {
		return nil, false
	}
	return v.withBehind(w), true
}

// Webhooks returns the webhooks with a name above after, by name.
func (v *View) Webhooks(after string) iter.Seq[*holdfastv1.Webhook] {
	return func(yield func(*holdfastv1.Webhook) bool) {
		for w := range v.webhooks.ascend("", after) {
			if !yield(v.withBehind(w)) {
				return
			}
		}
	}
}
