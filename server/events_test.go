package server

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/testing/protocmp"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/server/internal/nodetest"
)

func watchEvents(t *testing.T, c *clients, filter string, cursor uint64) grpc.ServerStreamingClient[holdfastv1.Event] {
	t.Helper()
	s, err := holdfastv1.NewEventServiceClient(c.conn).WatchEvents(testCtx(t),
		&holdfastv1.WatchEventsRequest{Filter: filter, Cursor: cursor})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestWatchEvents(t *testing.T) {
	n := nodetest.New()
	_, c := serve(t, n, Config{})
	n.Machine(t, "m-1")
	before := n.Peer.View().LastEvent()

	now := watchEvents(t, c, "", 0)
	bookmark, err := now.Recv()
	if err != nil || bookmark.GetType() != "" || bookmark.GetCursor() != before {
		t.Fatalf("got %v, %v; want a bookmark at %d", bookmark, err, before)
	}
	n.Start(t, "m-1", "run-1", "")
	n.Finish(t, "run-1", holdfastv1.Attempt_SUCCEEDED)
	want := n.Peer.View().LastEvent()
	for cursor := before + 1; cursor <= want; cursor++ {
		e, err := now.Recv()
		if err != nil || e.GetCursor() != cursor || e.GetType() == "" || e.GetMachineId() != "m-1" {
			t.Fatalf("got %v, %v; want event %d of m-1", e, err, cursor)
		}
	}

	// A watcher that resumes gets the matching events since its cursor.
	ended := watchEvents(t, c, `type = "run.succeeded"`, before)
	e, err := ended.Recv()
	if err != nil || e.GetRun().GetRunId() != "run-1" || e.GetRun().GetPhase() != holdfastv1.Run_SUCCEEDED {
		t.Errorf("got %v, %v; want the end of run-1", e, err)
	}

	_, err = watchEvents(t, c, "", want+7).Recv()
	wantError(t, err, codes.OutOfRange, "CURSOR_GONE")
	_, err = watchEvents(t, c, "colour = red", 0).Recv()
	wantError(t, err, codes.InvalidArgument, "INVALID_FIELD")
}

func TestWebhooks(t *testing.T) {
	n := nodetest.New()
	_, conns := serve(t, n, Config{})
	c, ctx := holdfastv1.NewWebhookServiceClient(conns.conn), testCtx(t)
	put := func(w *holdfastv1.Webhook) error {
		_, err := c.PutWebhook(ctx, &holdfastv1.PutWebhookRequest{Webhook: w})
		return err
	}
	wantError(t, put(nil), codes.InvalidArgument, "INVALID_FIELD")
	wantError(t, put(&holdfastv1.Webhook{Name: "h", Url: "x"}), codes.InvalidArgument, "INVALID_FIELD")
	wantError(t, put(&holdfastv1.Webhook{Name: "h", Url: "https://h.example", Filter: "colour = red"}),
		codes.InvalidArgument, "INVALID_FIELD")
	wantError(t, put(&holdfastv1.Webhook{Name: "h", Url: "https://h.example", SecretRef: "none"}),
		codes.FailedPrecondition, "SECRET_NOT_FOUND")
	for _, name := range []string{"b", "a"} {
		if err := put(&holdfastv1.Webhook{Name: name, Url: "https://h.example",
			Filter: `type = "run.failed" AND run.type = "REPAVE"`}); err != nil {
			t.Fatal(err)
		}
	}
	n.Machine(t, "m-1")
	r, err := c.ListWebhooks(ctx, &holdfastv1.ListWebhooksRequest{PageSize: 1})
	if err != nil || len(r.GetWebhooks()) != 1 || r.GetWebhooks()[0].GetName() != "a" || r.GetNextPageToken() == "" {
		t.Fatalf("got %v, %v; want a and more", r, err)
	}
	w, err := c.GetWebhook(ctx, &holdfastv1.GetWebhookRequest{Name: "b"})
	if err != nil || w.GetBehind() == 0 || w.GetWaiting() != 0 || w.GetWaitingSince() != nil {
		t.Errorf("got %v, %v; want it behind by the machine's events, none of which waits", w, err)
	}
	phases := &holdfastv1.Webhook{Name: "a", Url: "https://h.example", Filter: `type = "machine.phase"`}
	if err := put(phases); err != nil {
		t.Fatal(err)
	}
	r, err = c.ListWebhooks(ctx, &holdfastv1.ListWebhooksRequest{PageSize: 1})
	if err != nil || r.GetWebhooks()[0].GetWaiting() != 1 || r.GetWebhooks()[0].GetWaitingSince() == nil {
		t.Errorf("got %v, %v; want one event waiting for a, and since when", r, err)
	}
	w, err = c.GetWebhook(ctx, &holdfastv1.GetWebhookRequest{Name: "a"})
	if diff := cmp.Diff(r.GetWebhooks()[0], w, protocmp.Transform()); err != nil || diff != "" {
		t.Errorf("get a, %v (-list +get):\n%s", err, diff)
	}
	if _, err := c.DeleteWebhook(ctx, &holdfastv1.DeleteWebhookRequest{Name: "b"}); err != nil {
		t.Fatal(err)
	}
	_, err = c.GetWebhook(ctx, &holdfastv1.GetWebhookRequest{Name: "b"})
	wantError(t, err, codes.NotFound, "WEBHOOK_NOT_FOUND")
}
