package fsmtest

import (
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-metal/holdfast/fsm"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

const webhookIDs = 2

// webhookGenerator makes the commands about webhooks.
type webhookGenerator struct{ draw }

func (g webhookGenerator) choices() []choice {
	return []choice{
		{2, "put a webhook", g.putWebhook},
		{1, "delete a webhook", g.deleteWebhook},
		{2, "note a delivery", g.noteDelivery},
	}
}

func (g webhookGenerator) putWebhook(*fsm.View) proto.Message {
	w := &holdfastv1.Webhook{
		Name: g.id("hook", webhookIDs), Url: "https://hooks.example/in", Disabled: g.rarely("disabled"),
	}
	if g.rarely("filtered") {
		w.Filter = `type = "run.failed"`
	}
	if g.rarely("bad URL") {
		w.Url = "ftp://hooks.example"
	}
	if g.rarely("signed") {
		w.SecretRef = g.id("secret", 2)
	}
	return &internalv1.PutWebhook{Webhook: w}
}

func (g webhookGenerator) deleteWebhook(*fsm.View) proto.Message {
	return &internalv1.DeleteWebhook{Name: g.id("hook", webhookIDs)}
}

// noteDelivery advances by some events, or seldom goes back.
func (g webhookGenerator) noteDelivery(v *fsm.View) proto.Message {
	c := &internalv1.NoteDelivery{Name: g.id("hook", webhookIDs)}
	w, _ := v.Webhook(c.GetName())
	c.Cursor = w.GetCursor() + uint64(g.Choose("events", int(min(w.GetBehind(), 5))+1))
	if g.rarely("back") {
		c.Cursor = w.GetCursor() / 2
	}
	if g.Choose("fails", 3) == 0 {
		c.Failures, c.LastError = w.GetFailures()+1, "503 Service Unavailable"
	}
	if g.rarely("missed") {
		c.MissedTotal = w.GetMissed() + 2
	}
	return c
}
