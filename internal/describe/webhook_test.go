package describe

import (
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// TestWebhookLate checks from when on a waiting event is late.
func TestWebhookLate(t *testing.T) {
	now := time.Date(2026, 1, 29, 15, 10, 0, 0, time.UTC)
	for age, want := range map[time.Duration]bool{-time.Minute: false, 29 * time.Second: false, 30 * time.Second: true} {
		w := &holdfastv1.Webhook{Waiting: 1, WaitingSince: timestamppb.New(now.Add(-age))}
		if got := WebhookLate(w, now); got != want {
			t.Errorf("an event that waits for %s: got late %t, want %t", age, got, want)
		}
	}
	if WebhookLate(&holdfastv1.Webhook{Behind: 9}, now) {
		t.Error("no event waits: got late")
	}
}

// TestOpenWebhook checks which webhooks are open, in each notation of a scheme.
func TestOpenWebhook(t *testing.T) {
	for _, tt := range []struct {
		url, secret     string
		plain, unsigned bool
	}{
		{"https://h.example", "key", false, false},
		{"HTTPS://h.example", "", false, true},
		{"http://h.example", "key", true, false},
		{"HTTP://127.0.0.1:1", "", true, true},
	} {
		plain, unsigned := OpenWebhook(&holdfastv1.Webhook{Url: tt.url, SecretRef: tt.secret})
		if (plain != "") != tt.plain || (unsigned != "") != tt.unsigned {
			t.Errorf("%s, secret %q: got %q, %q", tt.url, tt.secret, plain, unsigned)
		}
	}
}
