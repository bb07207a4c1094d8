package raftfsm

import (
	"testing"

	"github.com/hashicorp/raft"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// TestKindsOfEntry checks that a slow entry is named by its commands.
func TestKindsOfEntry(t *testing.T) {
	noOp := &internalv1.Command{Op: &internalv1.Command_NoOp{NoOp: &internalv1.NoOp{}}}
	data, err := proto.Marshal(&internalv1.Entry{Commands: []*internalv1.Command{noOp, noOp, noOp, noOp}})
	if err != nil {
		t.Fatal(err)
	}
	a := Applying{log: &raft.Log{Data: data}}
	if got, want := a.Kinds(), "no_op, no_op, no_op, and 1 more"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
