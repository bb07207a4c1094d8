package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/holdfast-metal/holdfast/client"
	"github.com/holdfast-metal/holdfast/internal/describe"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

func webhookCommand(a *app) *cobra.Command {
	return parent(&cobra.Command{
		Use: "webhook", Aliases: []string{"webhooks"},
		Short: "Manage webhooks that receive events as CloudEvents",
		Example: `  holdfast webhook put chat --url https://hooks.example/in --filter 'type = "run.failed"' --secret hook-key
  holdfast webhook list`,
	}, webhookPut(a), webhookList(a), webhookGet(a), webhookDelete(a))
}

func webhookPut(a *app) *cobra.Command {
	var o output
	in := &holdfastv1.Webhook{}
	cmd := &cobra.Command{
		Use:                   "put WEBHOOK --url URL",
		DisableFlagsInUseLine: true,
		Args:                  exactly("WEBHOOK"),
		ValidArgsFunction:     a.complete(webhookKind().names),
		Short:                 "Create a webhook, or change one",
		Long: `Create a webhook, or change one; omitted flags get their default. The leader posts each matching event as a CloudEvent, in
order and at least once. With --secret each message is signed with the key "token" of a secret. A new webhook receives
events from now on; a changed or enabled one continues at its last event.`,
		Example: `  holdfast webhook put chat --url https://hooks.example/in
  holdfast webhook put oncall --url https://oncall.example/holdfast --filter 'type = "run.failed"' --secret hook-key
  holdfast webhook put chat --url https://hooks.example/in --disabled`,
		RunE: a.online(func(ctx context.Context, c *client.Client, args []string) error {
			in.Name = args[0]
			w, err := c.Webhooks().PutWebhook(ctx, &holdfastv1.PutWebhookRequest{Webhook: in})
			if err != nil {
				return failed(err, "put webhook %s", args[0])
			}
			plain, unsigned := describe.OpenWebhook(w)
			for _, open := range []string{plain, unsigned} {
				if open != "" {
					a.note("note: webhook %s: %s", args[0], open)
				}
			}
			return printOne(a, &o, webhookKind(), w)
		}),
	}
	o.register(cmd, shapes(webhookKind())...)
	f := cmd.Flags()
	f.StringVar(&in.Url, "url", "", "http or https `URL` that receives the messages")
	f.StringVar(&in.Filter, "filter", "", `only events that match (AIP-160), e.g. 'type = "run.failed"'`)
	f.StringVar(&in.SecretRef, "secret", "", "`SECRET` of type token that signs the messages")
	f.BoolVar(&in.Disabled, "disabled", false, "send nothing for now")
	return cmd
}

func webhookList(a *app) *cobra.Command {
	return listCommand(a, lister[*holdfastv1.Webhook]{
		short:   "List webhooks and the position of each",
		example: "  holdfast webhook list -o wide",
		kind:    webhookKind(),
	})
}

func webhookGet(a *app) *cobra.Command {
	return getCommand(a, getter[*holdfastv1.Webhook]{
		short:   "Show a webhook, its position and the last response of its receiver",
		example: "  holdfast webhook get chat -o wide",
		kind:    webhookKind(),
	})
}

func webhookDelete(a *app) *cobra.Command {
	return eachCommand(a, each[*holdfastv1.Webhook]{
		kind:  webhookKind(),
		short: "Delete webhooks; events that they have not received are dropped", example: "  holdfast webhook delete chat",
		do: func(ctx context.Context, c *client.Client, id string) error {
			_, err := c.Webhooks().DeleteWebhook(ctx, &holdfastv1.DeleteWebhookRequest{Name: id})
			return err
		},
	})
}
