package backup

import (
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/holdfast-metal/holdfast/fsm/internal/core"
	"github.com/holdfast-metal/holdfast/fsm/internal/refusal"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// Note records the time of a saved snapshot. The newest one counts, but never a time in
// the future: one wrong clock would otherwise suppress the alert on missing backups for
// years.
func Note(t *core.Tx, c *internalv1.NoteBackup) *refusal.Error {
	if c.GetSaved() == nil {
		return nil
	}
	if err := c.GetSaved().CheckValid(); err != nil {
		return refusal.InvalidField("saved_at", "%s", err)
	}
	if at := earlier(c.GetSaved(), t.Now); at.AsTime().After(t.Meta.GetLastBackup().AsTime()) {
		t.Meta.LastBackup = at
	}
	return nil
}

// earlier returns a copy of the earlier time.
func earlier(a, b *timestamppb.Timestamp) *timestamppb.Timestamp {
	if b.AsTime().Before(a.AsTime()) {
		a = b
	}
	return proto.CloneOf(a)
}
