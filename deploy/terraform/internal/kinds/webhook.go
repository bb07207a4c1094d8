package kinds

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/holdfast-metal/holdfast/client"
	"github.com/holdfast-metal/holdfast/deploy/terraform/internal/crud"
	"github.com/holdfast-metal/holdfast/deploy/terraform/internal/values"
	"github.com/holdfast-metal/holdfast/fsm"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// webhook is the model of holdfast_webhook, which is replaced as a whole: an omitted attribute is
// empty.
type webhook struct {
	Name      types.String `tfsdk:"name"`
	URL       types.String `tfsdk:"url"`
	Filter    types.String `tfsdk:"filter"`
	SecretRef types.String `tfsdk:"secret_ref"`
	Disabled  types.Bool   `tfsdk:"disabled"`
}

func webhookKind() crud.Kind[webhook] {
	return crud.Kind[webhook]{
		Name: "webhook", Key: "name", Upsert: true,
		Schema: schema.Schema{
			Description: "A URL that receives events.",
			Attributes: map[string]schema.Attribute{
				"name":       required("Name of the webhook. Another name is another webhook."),
				"url":        required("http or https, without credentials"),
				"filter":     optional("Of events, e.g. type = \"run.failed\"; omitted: all"),
				"secret_ref": optional("Secret whose key token signs the messages"),
				"disabled":   schema.BoolAttribute{Optional: true, Description: "Send nothing"},
			},
		},
		ID:    func(w *webhook) string { return w.Name.ValueString() },
		Empty: func(name string) webhook { return webhook{Name: types.StringValue(name)} },
		Read: func(ctx context.Context, c *client.Client, w *webhook, _ bool) error {
			live, err := c.Webhooks().GetWebhook(ctx, &holdfastv1.GetWebhookRequest{Name: w.Name.ValueString()})
			return filled(w.fill, live, err)
		},
		Create: func(ctx context.Context, c *client.Client, w, _ *webhook) error { return w.put(ctx, c) },
		Update: func(ctx context.Context, c *client.Client, _, w, _ *webhook) error { return w.put(ctx, c) },
		Delete: func(ctx context.Context, c *client.Client, w *webhook) error {
			_, err := c.Webhooks().DeleteWebhook(ctx, &holdfastv1.DeleteWebhookRequest{Name: w.Name.ValueString()})
			return err
		},
		Check: func(w *webhook) []crud.Violation { return violations(fsm.ValidateWebhook(w.proto())) },
	}
}

func (w *webhook) proto() *holdfastv1.Webhook {
	return &holdfastv1.Webhook{Name: w.Name.ValueString(), Url: w.URL.ValueString(), Filter: w.Filter.ValueString(),
		SecretRef: w.SecretRef.ValueString(), Disabled: w.Disabled.ValueBool()}
}

func (w *webhook) put(ctx context.Context, c *client.Client) error {
	live, err := c.Webhooks().PutWebhook(ctx, &holdfastv1.PutWebhookRequest{Webhook: w.proto()})
	return filled(w.fill, live, err)
}

func (w *webhook) fill(live *holdfastv1.Webhook) {
	w.URL = values.Kept(w.URL, live.GetUrl(), true)
	w.Filter = values.Whole(w.Filter, live.GetFilter(), "")
	w.SecretRef = values.Whole(w.SecretRef, live.GetSecretRef(), "")
	if w.Disabled.ValueBool() != live.GetDisabled() {
		w.Disabled = types.BoolValue(live.GetDisabled())
	}
}
