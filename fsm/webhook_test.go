package fsm_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/fsm/fsmtest"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// eventTypes returns the types of all events, oldest first.
func eventTypes(t *testing.T, p *fsmtest.Peer) []string {
	t.Helper()
	v := p.View()
	events, err := v.Events(max(v.FirstEvent(), 1)-1, 1000)
	if err != nil {
		t.Fatal(err)
	}
	var types []string
	for _, e := range events {
		types = append(types, e.GetType())
	}
	return types
}

func TestEvents(t *testing.T) {
	p := fsmtest.NewPeer()
	p.Do(&internalv1.RegisterMachine{Machine: &holdfastv1.Machine{MachineId: "m-1",
		Labels: map[string]string{"provider": "fake"}, Spec: &holdfastv1.MachineSpec{BmcEndpoint: "bmc"}}})
	p.Do(&internalv1.StartRun{RunId: "r-1", MachineId: "m-1", RequestId: "q-1", Type: "REBOOT", CheckedProvider: "fake",
		DefaultTimeoutSeconds: 600})
	p.Do(&internalv1.CancelRun{RunId: "r-1", Reason: "enough"})
	p.Do(&internalv1.RegisterService{NewId: "550e8400-e29b-41d4-a716-446655440000", TtlMs: 90_000,
		Target: &holdfastv1.ServiceTarget{ServiceName: "s", Host: "h", Port: 1, ServiceType: "tool-invoker"}})
	p.Do(&internalv1.DeleteMachine{MachineId: "m-1"})
	got := eventTypes(t, p)
	for _, want := range []string{"machine.inventory", "machine.phase", "run.pending", "run.canceled", "service.active"} {
		if !slices.Contains(got, want) {
			t.Errorf("got %v, want %s among them", got, want)
		}
	}
	v := p.View()
	for _, cursor := range []uint64{v.LastEvent() + 1, ^uint64(0)} {
		if _, err := v.Events(cursor, 1); err == nil {
			t.Errorf("got events after %d, which never was", cursor)
		}
	}
	events, _ := v.Events(v.LastEvent()-1, 10)
	if len(events) != 1 || events[0].GetMachineId() != "m-1" || events[0].GetChange().GetTo() != "deleted" ||
		events[0].GetIndex() != v.Index() || events[0].GetAt() == nil {
		t.Errorf("got %v, want the deletion of m-1", events)
	}
}

// A watch that begins in an empty cluster and is interrupted resumes after the cursor it got.
func TestEventsOfANewCluster(t *testing.T) {
	p := fsmtest.NewPeer()
	do(t, p, &internalv1.InitCluster{ClusterId: "c-1"})
	cursor := p.View().LastEvent()
	do(t, p, &internalv1.RegisterMachine{Machine: &holdfastv1.Machine{MachineId: "m-1"}})
	events, err := p.View().Events(cursor, 10)
	if cursor == 0 || err != nil || len(events) == 0 || events[0].GetCursor() != cursor+1 {
		t.Errorf("got %v, %v after cursor %d; want the events of m-1 after one that is not 0", events, err, cursor)
	}
}

func TestEventOfARunIsSmall(t *testing.T) {
	p := populated(t)
	v := p.View()
	events, err := v.Events(v.FirstEvent()-1, 1000)
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, e := range events {
		if e.GetRun() != nil {
			seen++
			if len(e.GetRun().GetSteps()) > 0 {
				t.Errorf("event %d has the run's steps", e.GetCursor())
			}
		}
	}
	if seen == 0 {
		t.Error("no event of a run")
	}
}

func TestValidateWebhook(t *testing.T) {
	good := func() *holdfastv1.Webhook {
		return &holdfastv1.Webhook{Name: "chat", Url: "https://hooks.example/in?team=a"}
	}
	for name, tt := range map[string]struct {
		change func(*holdfastv1.Webhook)
		want   []string
	}{
		"good":           {func(*holdfastv1.Webhook) {}, nil},
		"plain":          {func(w *holdfastv1.Webhook) { w.Url = "http://10.0.0.1:8080" }, nil},
		"no name":        {func(w *holdfastv1.Webhook) { w.Name = "" }, []string{"webhook.name"}},
		"a path":         {func(w *holdfastv1.Webhook) { w.Name = "a/b" }, []string{"webhook.name"}},
		"no URL":         {func(w *holdfastv1.Webhook) { w.Url = "" }, []string{"webhook.url"}},
		"no host":        {func(w *holdfastv1.Webhook) { w.Url = "https:///x" }, []string{"webhook.url"}},
		"another scheme": {func(w *holdfastv1.Webhook) { w.Url = "ftp://e.example" }, []string{"webhook.url"}},
		"a password":     {func(w *holdfastv1.Webhook) { w.Url = "https://joe:hunter2@e.example" }, []string{"webhook.url"}},
		"a long URL":     {func(w *holdfastv1.Webhook) { w.Url += strings.Repeat("a", 2048) }, []string{"webhook.url"}},
		"a long filter":  {func(w *holdfastv1.Webhook) { w.Filter = strings.Repeat("a", 4097) }, []string{"webhook.filter"}},
		"no secret":      {func(w *holdfastv1.Webhook) { w.SecretRef = "a b" }, []string{"webhook.secret_ref"}},
	} {
		w := good()
		tt.change(w)
		var got []string
		for _, f := range fsm.ValidateWebhook(w) {
			got = append(got, f.Field)
			if strings.Contains(f.Description, "hunter2") {
				t.Errorf("%s: the password is told: %s", name, f.Description)
			}
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func TestWebhook(t *testing.T) {
	p := populated(t)
	put := func(change func(*holdfastv1.Webhook)) *internalv1.PutWebhook {
		w := &holdfastv1.Webhook{Name: "chat", Url: "https://hooks.example/in", Cursor: 99, Failures: 99, Missed: 99}
		if change != nil {
			change(w)
		}
		return &internalv1.PutWebhook{Webhook: w}
	}
	begin := p.View().LastEvent()
	w := do(t, p, put(nil)).(*holdfastv1.Webhook)
	if w.GetCursor() != begin || w.GetFailures() != 0 || w.GetMissed() != 0 || w.GetBehind() != 0 ||
		w.GetCreatedAt() == nil {
		t.Errorf("a new webhook is %v, want it at event %d", w, begin)
	}
	revision := p.View().Index()
	if again := do(t, p, put(nil)).(*holdfastv1.Webhook); again.GetUpdatedAt().AsTime().After(w.GetUpdatedAt().AsTime()) {
		t.Errorf("the same once more at %d changed it: %v", revision, again)
	}
	do(t, p, &internalv1.DeleteMachine{MachineId: "m-1"})
	last := p.View().LastEvent()
	if last != begin+1 {
		t.Fatalf("events end at %d, want %d", last, begin+1)
	}
	refused(t, p, &internalv1.NoteDelivery{Name: "none"}, fsm.NotFound, "WEBHOOK_NOT_FOUND")
	refused(t, p, &internalv1.NoteDelivery{Name: "chat", Cursor: last + 1}, fsm.FailedPrecondition, "CURSOR_MISMATCH")
	do(t, p, &internalv1.NoteDelivery{Name: "chat", Cursor: begin, Failures: 2, LastError: "503"})
	if w, _ := p.View().Webhook("chat"); w.GetBehind() != 1 || w.GetFailures() != 2 || w.GetLastError() != "503" ||
		w.GetTriedAt() == nil {
		t.Errorf("after two failures it is %v", w)
	}
	do(t, p, &internalv1.NoteDelivery{Name: "chat", Cursor: last, MissedTotal: 3})
	// A retry, because the first outcome was unknown.
	do(t, p, &internalv1.NoteDelivery{Name: "chat", Cursor: last, MissedTotal: 3})
	refused(t, p, &internalv1.NoteDelivery{Name: "chat", Cursor: begin}, fsm.FailedPrecondition, "CURSOR_MISMATCH")
	w = do(t, p, put(func(w *holdfastv1.Webhook) {
		w.Filter, w.Disabled = `type = "run.failed"`,
			true
	})).(*holdfastv1.Webhook)
	if w.GetCursor() != last || w.GetMissed() != 3 || !w.GetDisabled() || w.GetFilter() == "" {
		t.Errorf("a changed webhook is %v, want it where it was", w)
	}

	refused(t, p, put(func(w *holdfastv1.Webhook) { w.SecretRef = "hook-key" }), fsm.FailedPrecondition,
		"SECRET_NOT_FOUND")
	do(t, p, &internalv1.PutSecret{Secret: &internalv1.StoredSecret{Secret: &holdfastv1.Secret{Name: "hook-key",
		Type: "token", Keys: []string{"token"}, Version: 1},
		Sealed: &internalv1.Sealed{KeyId: "k", Nonce: []byte("n"), Ciphertext: []byte("x")}}})
	do(t, p, put(func(w *holdfastv1.Webhook) { w.SecretRef = "hook-key" }))
	refused(t, p, &internalv1.DeleteSecret{Name: "hook-key"}, fsm.FailedPrecondition, fsm.ReasonSecretInUse)
	do(t, p, &internalv1.DeleteWebhook{Name: "chat"})
	refused(t, p, &internalv1.DeleteWebhook{Name: "chat"}, fsm.NotFound, "WEBHOOK_NOT_FOUND")
	do(t, p, &internalv1.DeleteSecret{Name: "hook-key"})
}
