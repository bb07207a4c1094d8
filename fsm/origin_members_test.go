package fsm_test

import (
	"slices"
	"testing"

	"github.com/holdfast-metal/holdfast/fsm/fsmtest"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// TestNotesNameTheirSubject checks the resource of audit events: the peer for a removal
// or a transfer of the leadership, and the snapshot for a read.
func TestNotesNameTheirSubject(t *testing.T) {
	for _, tt := range []struct {
		note *internalv1.NoteBackup
		want string
	}{
		{&internalv1.NoteBackup{Peer: "n1"}, "snapshots"},
		{&internalv1.NoteBackup{Members: true, Member: "n3"}, "peers/n3"},
		{&internalv1.NoteBackup{Members: true}, "peers"},
	} {
		p := fsmtest.NewPeer()
		p.Propose(&internalv1.Command{Origin: operator(), Op: &internalv1.Command_NoteBackup{NoteBackup: tt.note}})
		events := slices.Collect(p.View().AuditEvents(0))
		if len(events) != 1 || events[0].GetResource() != tt.want {
			t.Errorf("%v: got the events %v, want one about %s", tt.note, events, tt.want)
		}
	}
}
