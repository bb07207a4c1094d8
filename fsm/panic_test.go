package fsm

import (
	"errors"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// TestPanicHalts: a command that panics stops the peer with the way back, and is not skipped.
func TestPanicHalts(t *testing.T) {
	f := New()
	f.commands = &commandSet{} // every command meets a nil handler
	data, err := proto.Marshal(&internalv1.Entry{Commands: []*internalv1.Command{{
		Op: &internalv1.Command_LeaderEstablished{LeaderEstablished: &internalv1.LeaderEstablished{PeerId: "p1", Term: 1}},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	if rs := f.Apply(7, 1, data); rs != nil || f.Applied() != 0 {
		t.Fatalf("got %v, applied %d, want nothing", rs, f.Applied())
	}
	bug, ok := errors.AsType[*PanicError](f.HaltError())
	if !ok || bug.Index != 7 || len(bug.Stack) == 0 || !strings.Contains(f.HaltError().Error(), "recover --before 7") {
		t.Errorf("got %v, want a PanicError of entry 7 with the way back", f.HaltError())
	}
	if _, err := f.Snapshot(); err == nil {
		t.Error("got a snapshot of a state with half an entry")
	}
	f.Observe(8, 1)
	if f.Applied() != 0 {
		t.Error("got a later entry applied")
	}
}
