package feed

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/holdfast-metal/holdfast/client"
	"github.com/holdfast-metal/holdfast/internal/cli/app"
	"github.com/holdfast-metal/holdfast/internal/cli/kinds"
	"github.com/holdfast-metal/holdfast/internal/cli/output"
	"github.com/holdfast-metal/holdfast/internal/describe"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// Webhook returns the commands of webhooks.
func Webhook(a *app.App) *cobra.Command {
	return app.Parent(&cobra.Command{
		Use: "webhook", Aliases: []string{"webhooks"},
		Short: "Manage webhooks that receive events as CloudEvents",
		Example: `  holdfast webhook put chat --url https://hooks.example/in --filter 'type = "run.failed"' --secret hook-key
  holdfast webhook list`,
	}, webhookPut(a), webhookList(a), webhookGet(a), webhookDelete(a))
}

func webhookPut(a *app.App) *cobra.Command {
	var o output.Flags
	in := &holdfastv1.Webhook{}
	cmd := &cobra.Command{
		Use:                   "put WEBHOOK --url URL",
		DisableFlagsInUseLine: true,
		Args:                  app.Exactly("WEBHOOK"),
		ValidArgsFunction:     a.Complete(kinds.Webhook().Names),
		Short:                 "Create a webhook, or change one",
		Long: `Create a webhook, or change one; omitted flags get their default. The leader posts each matching event as a CloudEvent, in
order and at least once. With --secret each message is signed with the key "token" of a secret. A new webhook receives
events from now on; a changed or enabled one continues at its last event.`,
		Example: `  holdfast webhook put chat --url https://hooks.example/in
  holdfast webhook put oncall --url https://oncall.example/holdfast --filter 'type = "run.failed"' --secret hook-key
  holdfast webhook put chat --url https://hooks.example/in --disabled`,
		RunE: a.Online(func(ctx context.Context, c *client.Client, args []string) error {
			in.Name = args[0]
			w, err := c.Webhooks().PutWebhook(ctx, &holdfastv1.PutWebhookRequest{Webhook: in})
			if err != nil {
				return app.Failed(err, "put webhook %s", args[0])
			}
			plain, unsigned := describe.OpenWebhook(w)
			for _, open := range []string{plain, unsigned} {
				if open != "" {
					a.Note("note: webhook %s: %s", args[0], open)
				}
			}
			return output.PrintOne(a, &o, kinds.Webhook(), w)
		}),
	}
	o.Register(cmd, output.Shapes(kinds.Webhook())...)
	f := cmd.Flags()
	f.StringVar(&in.Url, "url", "", "http or https `URL` that receives the messages")
	f.StringVar(&in.Filter, "filter", "", `only events that match (AIP-160), e.g. 'type = "run.failed"'`)
	f.StringVar(&in.SecretRef, "secret", "", "`SECRET` of type token that signs the messages")
	f.BoolVar(&in.Disabled, "disabled", false, "send nothing for now")
	return cmd
}

func webhookList(a *app.App) *cobra.Command {
	return output.ListCommand(a, output.Lister[*holdfastv1.Webhook]{
		Short:   "List webhooks and the position of each",
		Example: "  holdfast webhook list -o wide",
		Kind:    kinds.Webhook(),
	})
}

func webhookGet(a *app.App) *cobra.Command {
	return output.GetCommand(a, output.Getter[*holdfastv1.Webhook]{
		Short:   "Show a webhook, its position and the last response of its receiver",
		Example: "  holdfast webhook get chat -o wide",
		Kind:    kinds.Webhook(),
	})
}

func webhookDelete(a *app.App) *cobra.Command {
	return output.EachCommand(a, output.Each[*holdfastv1.Webhook]{
		Kind:  kinds.Webhook(),
		Short: "Delete webhooks; events that they have not received are dropped", Example: "  holdfast webhook delete chat",
		Do: func(ctx context.Context, c *client.Client, id string) error {
			_, err := c.Webhooks().DeleteWebhook(ctx, &holdfastv1.DeleteWebhookRequest{Name: id})
			return err
		},
	})
}
