package fsm

import (
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// noteBackup takes note that a snapshot is in safety. The newest one counts, and none is newer than
// now: a clock that is wrong once would keep silent for years whoever watches for backups that stay
// away.
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

// earlier returns a copy of the one that comes first.
func earlier(a, b *timestamppb.Timestamp) *timestamppb.Timestamp {
	if b.AsTime().Before(a.AsTime()) {
		a = b
	}
	return proto.CloneOf(a)
}
