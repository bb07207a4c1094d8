package server

import (
	"context"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/server/egress"
	"github.com/holdfast-metal/holdfast/server/internal/nodetest"
)

// TestURLsOfDeniedNetworks checks that a URL which no peer would ever fetch is refused when it is
// entered, in each request that stores one.
func TestURLsOfDeniedNetworks(t *testing.T) {
	policy, err := egress.New(egress.Default())
	if err != nil {
		t.Fatal(err)
	}
	n := nodetest.New()
	n.Machine(t, "m-1")
	_, c := serve(t, n, Config{DenyURL: policy.CheckURL})
	const denied = "http://169.254.169.254/latest"
	media := &holdfastv1.Plan{PlanId: "plan/x", Steps: []*holdfastv1.Step{{Name: "a",
		Kind: &holdfastv1.Step_Media{Media: &holdfastv1.Media{Url: denied}}}}}
	ask := &holdfastv1.Plan{PlanId: "plan/ask", Steps: []*holdfastv1.Step{{Name: "a",
		Kind: &holdfastv1.Step_Media{Media: &holdfastv1.Media{}}}}}
	if _, err := c.CreatePlan(testCtx(t), &holdfastv1.CreatePlanRequest{Plan: ask}); err != nil {
		t.Fatal(err)
	}
	disk := &holdfastv1.Image_File{Sha256: strings.Repeat("a", 64), Url: denied}
	params := map[string]string{"url": denied}
	for field, call := range map[string]func(context.Context) error{
		"webhook.url": func(ctx context.Context) error {
			_, err := holdfastv1.NewWebhookServiceClient(c.conn).PutWebhook(ctx,
				&holdfastv1.PutWebhookRequest{Webhook: &holdfastv1.Webhook{Name: "w", Url: denied}})
			return err
		},
		"image.disk.url": func(ctx context.Context) error {
			_, err := holdfastv1.NewImageServiceClient(c.conn).AddImage(ctx,
				&holdfastv1.AddImageRequest{Image: &holdfastv1.Image{Name: "i", Disk: disk}})
			return err
		},
		"plan.steps[0].media.url": func(ctx context.Context) error {
			_, err := c.CreatePlan(ctx, &holdfastv1.CreatePlanRequest{Plan: media, ValidateOnly: true})
			return err
		},
		"params.url": func(ctx context.Context) error {
			_, err := c.StartRun(ctx, &holdfastv1.StartRunRequest{RequestId: "r", MachineId: "m-1", PlanId: "plan/ask",
				Params: params})
			return err
		},
		"params.url of a wave": func(ctx context.Context) error {
			_, err := holdfastv1.NewWaveServiceClient(c.conn).StartWave(ctx, &holdfastv1.StartWaveRequest{RequestId: "w",
				MachineIds: []string{"m-1"}, PlanId: "plan/ask", Params: params, ValidateOnly: true})
			return err
		},
	} {
		err := call(testCtx(t))
		wantError(t, err, codes.InvalidArgument, "INVALID_FIELD")
		for _, want := range []string{strings.TrimSuffix(field, " of a wave") + ": ", "169.254.169.254", "--deny-urls"} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: got %v, want %s in it", field, err, want)
			}
		}
	}
}

// TestOpenWebhooks checks what is refused if webhooks have to be encrypted and signed.
func TestOpenWebhooks(t *testing.T) {
	for _, tt := range []struct {
		name   string
		refuse bool
		hook   *holdfastv1.Webhook
		want   []string // in the refusal; none: it is stored
	}{
		{"allowed", false, &holdfastv1.Webhook{Url: "http://h.example/token-1"}, nil},
		{"open in both ways", true, &holdfastv1.Webhook{Url: "HTTP://h.example?token-1"}, []string{
			"webhook.url: HTTP://h.example: ", "use an https URL", "(and 1 more)", "--open-webhooks"}},
		{"not signed", true, &holdfastv1.Webhook{Url: "https://h.example"}, []string{"webhook.secret_ref", "type token"}},
		{"disabled", true, &holdfastv1.Webhook{Url: "http://h.example", Disabled: true}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, c := serve(t, nodetest.New(), Config{RefuseOpenWebhooks: tt.refuse})
			tt.hook.Name = "w"
			_, err := holdfastv1.NewWebhookServiceClient(c.conn).PutWebhook(testCtx(t),
				&holdfastv1.PutWebhookRequest{Webhook: tt.hook})
			if len(tt.want) == 0 {
				if err != nil {
					t.Fatal(err)
				}
				return
			}
			wantError(t, err, codes.InvalidArgument, "INVALID_FIELD")
			for _, want := range tt.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("got %v, want %q in it", err, want)
				}
			}
			if strings.Contains(err.Error(), "token-1") {
				t.Errorf("got the path of the URL, which may be a secret: %v", err)
			}
		})
	}
}
