package events

import (
	"context"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/internal/describe"
	"github.com/holdfast-metal/holdfast/internal/filter"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
	"github.com/holdfast-metal/holdfast/server/auth"
	"github.com/holdfast-metal/holdfast/server/internal/edge"
	"github.com/holdfast-metal/holdfast/server/internal/page"
	"github.com/holdfast-metal/holdfast/server/internal/request"
)

// Webhooks implements WebhookService.
type Webhooks struct {
	holdfastv1.UnimplementedWebhookServiceServer
	*edge.Peer

	refuseOpen bool
}

// NewWebhooks returns the service of a peer. refuseOpen makes it refuse webhooks whose messages are
// not encrypted or not signed.
func NewWebhooks(peer *edge.Peer, refuseOpen bool) *Webhooks {
	return &Webhooks{Peer: peer, refuseOpen: refuseOpen}
}

// open returns the violations of a webhook that must not be open. One that is disabled sends
// nothing.
func (s *Webhooks) open(w *holdfastv1.Webhook) (bad []fsm.FieldViolation) {
	if !s.refuseOpen || w.GetDisabled() {
		return nil
	}
	plain, unsigned := describe.OpenWebhook(w)
	const why = " (--open-webhooks of the peers is refuse)"
	if plain != "" {
		scheme, rest, _ := strings.Cut(w.GetUrl(), "://")
		if i := strings.IndexAny(rest, "/?#"); i >= 0 {
			rest = rest[:i] // what follows may be a secret
		}
		bad = append(bad, fsm.FieldViolation{Field: "webhook.url", Description: scheme + "://" + rest + ": " + plain + why})
	}
	if unsigned != "" {
		bad = append(bad, fsm.FieldViolation{Field: "webhook.secret_ref", Description: "is empty: " + unsigned + why})
	}
	return bad
}

// PutWebhook creates or replaces a webhook.
func (s *Webhooks) PutWebhook(ctx context.Context, r *holdfastv1.PutWebhookRequest) (*holdfastv1.Webhook, error) {
	if r.GetWebhook() == nil {
		return nil, request.Invalid("webhook", "is required")
	}
	w := proto.CloneOf(request.WithoutUnknown(r.GetWebhook()))
	bad := fsm.ValidateWebhook(w)
	if len(bad) == 0 {
		bad = s.open(w)
	}
	if err := request.Violations(append(bad, s.DeniedURLs("webhook", w)...)); err != nil {
		return nil, err
	}
	if _, err := filter.CompileEvent(w.GetFilter()); err != nil {
		return nil, request.Invalid("webhook.filter", err.Error())
	}
	c := auth.Command(ctx)
	c.Op = &internalv1.Command_PutWebhook{PutWebhook: &internalv1.PutWebhook{Webhook: w}}
	return edge.Apply[*holdfastv1.Webhook](ctx, s.Cluster, c)
}

// GetWebhook returns a webhook with its progress.
func (s *Webhooks) GetWebhook(ctx context.Context, r *holdfastv1.GetWebhookRequest) (*holdfastv1.Webhook, error) {
	v, err := request.View(ctx, s.Cluster.View, "name", r.GetName())
	if err != nil {
		return nil, err
	}
	w, ok := v.Webhook(r.GetName())
	if !ok {
		return nil, request.NotFound("WEBHOOK_NOT_FOUND", "webhook", r.GetName())
	}
	progress(v, w)
	return w, nil
}

// ListWebhooks lists webhooks by name.
func (s *Webhooks) ListWebhooks(
	ctx context.Context, r *holdfastv1.ListWebhooksRequest,
) (*holdfastv1.ListWebhooksResponse, error) {
	p, v, err := page.Open(ctx, s.Cluster.View, r, "webhooks")
	if err != nil {
		return nil, err
	}
	rows := page.Keyed(v.Webhooks(p.After), (*holdfastv1.Webhook).GetName)
	resp := &holdfastv1.ListWebhooksResponse{}
	resp.Webhooks, resp.NextPageToken, err = page.Collect(ctx, p, rows, nil)
	for _, w := range resp.GetWebhooks() {
		progress(v, w)
	}
	return resp, err
}

// DeleteWebhook deletes a webhook.
func (s *Webhooks) DeleteWebhook(
	ctx context.Context, r *holdfastv1.DeleteWebhookRequest,
) (*holdfastv1.DeleteWebhookResponse, error) {
	if err := request.Required("name", r.GetName()); err != nil {
		return nil, err
	}
	c := auth.Command(ctx)
	c.Op = &internalv1.Command_DeleteWebhook{DeleteWebhook: &internalv1.DeleteWebhook{Name: r.GetName()}}
	return edge.ApplyEmpty[holdfastv1.DeleteWebhookResponse](ctx, s.Cluster, c)
}
