package fsm_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/fsm/fsmtest"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// TestLastBackup checks that the newest saved snapshot counts, that none is newer than now,
// and that a snapshot that is only read does not count.
func TestLastBackup(t *testing.T) {
	p := fsmtest.NewPeer()
	now := p.Now
	at := func(ago time.Duration) *timestamppb.Timestamp { return timestamppb.New(now.Add(-ago)) }
	for _, tt := range []struct {
		why  string
		note *internalv1.NoteBackup
		want *timestamppb.Timestamp
	}{
		{"read, not saved", &internalv1.NoteBackup{Peer: "n1"}, nil},
		{"saved", &internalv1.NoteBackup{Saved: at(time.Hour)}, at(time.Hour)},
		{"an older one", &internalv1.NoteBackup{Saved: at(2 * time.Hour)}, at(time.Hour)},
		{"a newer one", &internalv1.NoteBackup{Saved: at(time.Minute)}, at(time.Minute)},
		{"members", &internalv1.NoteBackup{Members: true, Member: "n2"}, at(time.Minute)},
	} {
		do(t, p, tt.note)
		if diff := cmp.Diff(tt.want, p.View().Meta().GetLastBackup(), protocmp.Transform()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.why, diff)
		}
	}
	do(t, p, &internalv1.NoteBackup{Saved: at(-24 * time.Hour)})
	if m := p.View().Meta(); m.GetLastBackup().AsTime().After(m.GetNow().AsTime()) {
		t.Errorf("one of tomorrow: got %v, want none after %v", m.GetLastBackup().AsTime(), m.GetNow().AsTime())
	}
	before := p.View().Meta().GetLastBackup()
	res := p.Do(&internalv1.NoteBackup{Saved: &timestamppb.Timestamp{Nanos: -1}})
	if res.Err == nil || res.Err.Code != fsm.InvalidArgument ||
		!before.AsTime().Equal(p.View().Meta().GetLastBackup().AsTime()) {
		t.Errorf("no time at all: got %v, want it refused", res.Err)
	}
}

// TestRestoreKnowsItsBackup checks that after a restore the newest backup is the restored
// file, even if newer ones exist: none of them contains the present state.
func TestRestoreKnowsItsBackup(t *testing.T) {
	p := fsmtest.NewPeer()
	do(t, p, &internalv1.InitCluster{ClusterId: "c1"})
	file := backup(t, p.View())
	taken := p.View().Meta().GetNow().AsTime()
	p.Now = p.Now.Add(48 * time.Hour)
	do(t, p, &internalv1.NoteBackup{Saved: timestamppb.New(p.Now)})
	if r := p.RestoreFile(file, 1000, &internalv1.RestoreBackup{RestoreId: "r1"}); r.Err != nil {
		t.Fatal(r.Err)
	}
	if got := p.View().Meta().GetLastBackup().AsTime(); !got.Equal(taken) {
		t.Errorf("newest backup: got %v, want %v", got, taken)
	}
}
