package fsm

import (
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// noteBackup records the time of a saved snapshot. The newest one counts, but never a time in
// the future: one wrong clock would otherwise suppress the alert on missing backups for
// years.
func (t *tx) noteBackup(c *internalv1.NoteBackup) *Error {
	if c.GetSaved() == nil {
		return nil
	}
	if err := c.GetSaved().CheckValid(); err != nil {
		return invalid("saved_at", "%s", err)
	}
	if at := earlier(c.GetSaved(), t.now); at.AsTime().After(t.meta.GetLastBackup().AsTime()) {
		t.meta.LastBackup = at
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
