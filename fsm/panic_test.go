package fsm

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// TestPanicNamesTheWayBack checks that a command that panics ends the process, so that nothing acts
// on a state with half of it, and that the message says how to go on.
func TestPanicNamesTheWayBack(t *testing.T) {
	f := New()
	f.commands = &commandSet{} // it knows no command
	data, err := proto.Marshal(&internalv1.Entry{Commands: []*internalv1.Command{{
		Op: &internalv1.Command_LeaderEstablished{LeaderEstablished: &internalv1.LeaderEstablished{PeerId: "p1", Term: 1}},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		bug, ok := recover().(*PanicError)
		if !ok || bug.Index != 7 || !strings.Contains(bug.Error(), "recover --before 7") || f.Applied() != 0 {
			t.Errorf("got %v, applied %d, want a PanicError of entry 7 with the way back", bug, f.Applied())
		}
	}()
	f.Apply(7, 1, data)
	t.Error("got no panic")
}
