package access

import (
	"iter"

	"google.golang.org/protobuf/proto"

	"github.com/holdfast-metal/holdfast/fsm/internal/core"
	"github.com/holdfast-metal/holdfast/fsm/internal/lex"
	"github.com/holdfast-metal/holdfast/fsm/internal/refusal"
	"github.com/holdfast-metal/holdfast/fsm/internal/table"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// Limits of webhooks. The leader posts to each of them separately.
const (
	maxWebhooks    = 100
	maxWebhookURL  = 2048
	maxWebhookText = 4096 // of a filter
)

func webhookNotFound(name string) *refusal.Error {
	return refusal.New(refusal.NotFound, "WEBHOOK_NOT_FOUND", "webhook %q not found", lex.Ident(name)).
		With("webhook", lex.Ident(name))
}

// ValidateWebhook returns the violations of a requested webhook. The server checks its
// filter.
func ValidateWebhook(w *holdfastv1.Webhook) []refusal.FieldViolation {
	bad := refusal.Violations{Prefix: "webhook."}
	if !lex.ValidName(w.GetName(), 64) {
		bad.Add("name", "has to be 1 to 64 letters, digits, '.', '_', '-'")
	}
	switch u, ok := lex.ParseURL(w.GetUrl()); {
	case !ok || len(w.GetUrl()) > maxWebhookURL || !u.IsWeb():
		bad.Add("url", "has to be an http or https URL of at most 2048 bytes")
	case u.User:
		bad.Add("url", "holds credentials: sign the messages with secret_ref instead")
	}
	if len(w.GetFilter()) > maxWebhookText {
		bad.Add("filter", "is longer than 4096 bytes")
	}
	if w.GetSecretRef() != "" && !ValidSecretName(w.GetSecretRef()) {
		bad.Add("secret_ref", "is not the name of a secret")
	}
	return bad.Fields
}

// PutWebhook creates or changes a webhook. A new one receives the events after its creation.
func PutWebhook(t *core.Tx, c *internalv1.PutWebhook) (*holdfastv1.Webhook, *refusal.Error) {
	in := c.GetWebhook()
	if err := refusal.Invalid(ValidateWebhook(in)); err != nil {
		return nil, err
	}
	if ref := in.GetSecretRef(); ref != "" && !t.Secrets.Has(ref) {
		return nil, refusal.New(refusal.FailedPrecondition, "SECRET_NOT_FOUND",
			"signing secret %q not found: store it first", ref).
			With("secret", ref)
	}
	w, exists := t.Webhooks.Edit(in.GetName())
	if !exists {
		if t.Webhooks.Len() >= maxWebhooks {
			return nil, refusal.New(refusal.FailedPrecondition, "TOO_MANY_WEBHOOKS",
				"there are %d webhooks already, the maximum: delete some, or serve several receivers from one",
				maxWebhooks)
		}
		w = &holdfastv1.Webhook{
			Name:      in.GetName(),
			Cursor:    t.Meta.GetLastEvent(),
			CreatedAt: t.Now,
			CreatedBy: lex.Clip(t.Command.GetPrincipal(), core.MaxPrincipal),
		}
	}
	had := proto.CloneOf(w)
	w.Url, w.Filter, w.SecretRef, w.Disabled = in.GetUrl(), in.GetFilter(), in.GetSecretRef(), in.GetDisabled()
	if exists && proto.Equal(had, w) {
		return withBehind(t.State, w), nil
	}
	w.UpdatedAt = t.Now
	t.Webhooks.Put(w)
	return withBehind(t.State, w), nil
}

// DeleteWebhook deletes a webhook.
func DeleteWebhook(t *core.Tx, c *internalv1.DeleteWebhook) *refusal.Error {
	if !t.Webhooks.Has(c.GetName()) {
		return webhookNotFound(c.GetName())
	}
	t.Webhooks.Delete(c.GetName())
	return nil
}

// NoteDelivery records the progress of a webhook. Its cursor never goes back, nor beyond the
// newest event.
func NoteDelivery(t *core.Tx, c *internalv1.NoteDelivery) *refusal.Error {
	w, ok := t.Webhooks.Edit(c.GetName())
	if !ok {
		return webhookNotFound(c.GetName())
	}
	if c.GetCursor() < w.GetCursor() || c.GetCursor() > t.Meta.GetLastEvent() {
		return refusal.New(refusal.FailedPrecondition, "CURSOR_MISMATCH",
			"webhook %q is at event %d of %d: %d is not after it",
			w.GetName(), w.GetCursor(), t.Meta.GetLastEvent(), c.GetCursor())
	}
	if w.GetFailures() != c.GetFailures() {
		w.TriedAt = t.Now
	}
	w.Cursor, w.Failures, w.LastError = c.GetCursor(), c.GetFailures(), lex.Clip(c.GetLastError(), core.MaxPrincipal)
	w.Missed = max(w.GetMissed(), c.GetMissedTotal())
	t.Webhooks.Put(w)
	return nil
}

// withBehind returns a copy of a webhook with the fields that are computed on read.
func withBehind(s *core.State, w *holdfastv1.Webhook) *holdfastv1.Webhook {
	w = proto.CloneOf(w)
	if last := s.Meta.GetLastEvent(); last > w.GetCursor() {
		w.Behind = last - w.GetCursor()
	}
	return w
}

// Webhook returns a webhook and the number of events it is behind.
func (v *View) Webhook(name string) (*holdfastv1.Webhook, bool) {
	w, ok := v.s.Webhooks.Get(name)
	if !ok {
		return nil, false
	}
	return withBehind(v.s, w), true
}

// Webhooks returns the webhooks with a name above after, by name.
func (v *View) Webhooks(after string) iter.Seq[*holdfastv1.Webhook] {
	return table.Map(v.s.Webhooks.Ascend("", after), func(w *holdfastv1.Webhook) *holdfastv1.Webhook {
		return withBehind(v.s, w)
	})
}
