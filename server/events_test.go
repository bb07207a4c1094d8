package server

import (
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
	"github.com/holdfast-metal/holdfast/server/internal/nodetest"
	"github.com/holdfast-metal/holdfast/server/internal/request"
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
	before := n.Peer.View().LastNews()

	now := watchEvents(t, c, "", 0)
	bookmark, err := now.Recv()
	if err != nil || bookmark.GetType() != "" || bookmark.GetCursor() != before {
		t.Fatalf("got %v, %v; want a bookmark at %d", bookmark, err, before)
	}
	n.Start(t, "m-1", "run-1", "")
	n.Finish(t, "run-1", holdfastv1.Attempt_SUCCEEDED)
	want := n.Peer.View().LastNews()
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

// A stream without matching events still sends its cursor, so that its client can resume.
func TestWatchEventsBookmarks(t *testing.T) {
	n := nodetest.New()
	n.Machine(t, "m-1")
	n.Machine(t, "m-2")
	var got []*holdfastv1.Event
	w := &eventWatch{sees: func(*holdfastv1.Event) bool { return false }, cursor: 1, sent: 1,
		send: func(e *holdfastv1.Event) error {
			got = append(got, e)
			return nil
		}}
	var err error
	if w.filter, err = request.Filter(runFilter, ""); err != nil {
		t.Fatal(err)
	}
	if err := w.follow(n.Peer.View()); err != nil { // toldAt is long ago
		t.Fatal(err)
	}
	if last := n.Peer.View().LastNews(); len(got) != 1 || got[0].GetCursor() != last || got[0].GetType() != "" {
		t.Errorf("got %v, want one bookmark at %d", got, last)
	}
}

func TestEventsOfPools(t *testing.T) {
	n := nodetest.New()
	n.Do(t, &internalv1.RegisterMachine{Machine: &holdfastv1.Machine{MachineId: "m-a",
		Spec: &holdfastv1.MachineSpec{Pool: "a"}}})
	n.Do(t, &internalv1.RegisterMachine{Machine: &holdfastv1.Machine{MachineId: "m-b",
		Spec: &holdfastv1.MachineSpec{Pool: "b"}}})
	a := &holdfastv1.Identity{Principal: "ann", Role: holdfastv1.Role_VIEWER, Pools: []string{"a"}}
	for _, tt := range []struct {
		name string
		who  *holdfastv1.Identity
		e    *holdfastv1.Event
		want bool
	}{
		{"of the pool", a, &holdfastv1.Event{MachineId: "m-a"}, true},
		{"of another pool", a, &holdfastv1.Event{MachineId: "m-b"}, false},
		{"of a machine that is gone", a, &holdfastv1.Event{MachineId: "m-c"}, false},
		{"of a service", a, &holdfastv1.Event{Service: &holdfastv1.Service{}}, true},
		{"to who sees all", &holdfastv1.Identity{Role: holdfastv1.Role_VIEWER}, &holdfastv1.Event{MachineId: "m-c"}, true},
	} {
		if got := seesEvents(tt.who, n.Peer.View)(tt.e); got != tt.want {
			t.Errorf("%s: got %t, want %t", tt.name, got, tt.want)
		}
	}
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
	if w, err := c.GetWebhook(ctx, &holdfastv1.GetWebhookRequest{Name: "b"}); err != nil || w.GetBehind() == 0 {
		t.Errorf("got %v, %v; want it behind by the machine's events", w, err)
	}
	if _, err := c.DeleteWebhook(ctx, &holdfastv1.DeleteWebhookRequest{Name: "b"}); err != nil {
		t.Fatal(err)
	}
	_, err = c.GetWebhook(ctx, &holdfastv1.GetWebhookRequest{Name: "b"})
	wantError(t, err, codes.NotFound, "WEBHOOK_NOT_FOUND")
}
