package server

import (
	"context"

	"google.golang.org/protobuf/proto"

	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/internal/filter"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// webhookService implements WebhookService.
type webhookService struct {
	holdfastv1.UnimplementedWebhookServiceServer
	*Server
}

// PutWebhook creates or replaces a webhook.
func (s *webhookService) PutWebhook(ctx context.Context, r *holdfastv1.PutWebhookRequest) (*holdfastv1.Webhook, error) {
	if r.GetWebhook() == nil {
		return nil, invalid("webhook", "is required")
	}
	w := proto.CloneOf(withoutUnknown(r.GetWebhook()))
	if err := violations(fsm.ValidateWebhook(w)); err != nil {
		return nil, err
	}
	if _, err := filter.CompileEvent(w.GetFilter()); err != nil {
		return nil, invalid("webhook.filter", err.Error())
	}
	c := s.command(ctx)
	c.Op = &internalv1.Command_PutWebhook{PutWebhook: &internalv1.PutWebhook{Webhook: w}}
	return apply[*holdfastv1.Webhook](ctx, s.node, c)
}

// GetWebhook returns a webhook with its progress.
func (s *webhookService) GetWebhook(ctx context.Context, r *holdfastv1.GetWebhookRequest) (*holdfastv1.Webhook, error) {
	if err := required("name", r.GetName()); err != nil {
		return nil, err
	}
	v, err := s.node.View(ctx)
	if err != nil {
		return nil, err
	}
	w, ok := v.Webhook(r.GetName())
	if !ok {
		return nil, notFound("WEBHOOK_NOT_FOUND", "webhook", r.GetName())
	}
	return w, nil
}

// ListWebhooks lists webhooks by name.
func (s *webhookService) ListWebhooks(
	ctx context.Context, r *holdfastv1.ListWebhooksRequest,
) (*holdfastv1.ListWebhooksResponse, error) {
	p, err := newPage(r.GetPageSize(), r.GetPageToken(), "webhooks")
	if err != nil {
		return nil, err
	}
	v, err := s.node.View(ctx)
	if err != nil {
		return nil, err
	}
	rows := func(yield func(string, *holdfastv1.Webhook) bool) {
		for w := range v.Webhooks(p.after) {
			if !yield(w.GetName(), w) {
				return
			}
		}
	}
	resp := &holdfastv1.ListWebhooksResponse{}
	all := func(*holdfastv1.Webhook) bool { return true }
	resp.Webhooks, resp.NextPageToken, err = collect(ctx, p, rows, all)
	return resp, err
}

// DeleteWebhook deletes a webhook.
func (s *webhookService) DeleteWebhook(
	ctx context.Context, r *holdfastv1.DeleteWebhookRequest,
) (*holdfastv1.DeleteWebhookResponse, error) {
	if err := required("name", r.GetName()); err != nil {
		return nil, err
	}
	c := s.command(ctx)
	c.Op = &internalv1.Command_DeleteWebhook{DeleteWebhook: &internalv1.DeleteWebhook{Name: r.GetName()}}
	if _, err := s.node.Apply(ctx, c); err != nil {
		return nil, err
	}
	return &holdfastv1.DeleteWebhookResponse{}, nil
}
