package core

import (
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/holdfast-metal/holdfast/fsm/internal/wire"
	"github.com/holdfast-metal/holdfast/fsm/internal/wire/wiretest"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// FuzzKnown checks that bytes whose shape is known decode to a known message.
func FuzzKnown(f *testing.F) {
	shape := wire.ShapeOf((&internalv1.Command{}).ProtoReflect().Descriptor())
	same := func(t testing.TB, raw []byte) {
		m := &internalv1.Command{}
		if proto.Unmarshal(raw, m) != nil || !shape.Known(raw) {
			return
		}
		if err := Known(m.ProtoReflect()); err != nil {
			t.Errorf("%x: the shape is known, but the message has %v", raw, err)
		}
	}
	for _, raw := range wiretest.Seeds(f, &internalv1.Command{}) {
		f.Add(raw)
	}
	for _, raw := range wiretest.OddFields() { // too many to be seeds
		same(f, raw)
	}
	f.Fuzz(func(t *testing.T, raw []byte) { same(t, raw) })
}

// TestCommandsAreKnown checks that a command with each operation, with all of its fields, is known
// by its bytes, and is not if a part of it is unknown.
func TestCommandsAreKnown(t *testing.T) {
	shape := wire.ShapeOf((&internalv1.Command{}).ProtoReflect().Descriptor())
	ops := (&internalv1.Command{}).ProtoReflect().Descriptor().Oneofs().ByName("op").Fields()
	for i := range ops.Len() {
		op := ops.Get(i)
		c := &internalv1.Command{Principal: "p"}
		wiretest.Full(c.ProtoReflect().Mutable(op).Message(), 3)
		raw, err := proto.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		if !shape.Known(raw) {
			t.Errorf("%s is not known", op.Name())
		}
		c.ProtoReflect().Mutable(op).Message().SetUnknown([]byte("\xf8\x3f\x01")) // field 1023
		if raw, err = proto.Marshal(c); err != nil {
			t.Fatal(err)
		}
		if shape.Known(raw) {
			t.Errorf("%s with an unknown field is known", op.Name())
		}
	}
}

// TestUnknownValues checks that an enum value that is not declared is not known.
func TestUnknownValues(t *testing.T) {
	shape := wire.ShapeOf((&internalv1.Command{}).ProtoReflect().Descriptor())
	for _, tt := range []struct {
		phase int32
		want  bool
	}{{1, true}, {99, false}, {-1, false}} {
		c := &internalv1.Command{Op: &internalv1.Command_SetMachinePhase{SetMachinePhase: &internalv1.SetMachinePhase{}}}
		m := c.GetSetMachinePhase().ProtoReflect()
		m.Set(m.Descriptor().Fields().ByName("phase"), protoreflect.ValueOfEnum(protoreflect.EnumNumber(tt.phase)))
		raw, err := proto.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		if got := shape.Known(raw); got != tt.want {
			t.Errorf("phase %d: got %v, want %v", tt.phase, got, tt.want)
		}
		if err := Known(c.ProtoReflect()); (err == nil) != tt.want {
			t.Errorf("phase %d, decoded: got %v, want that it is known: %v", tt.phase, err, tt.want)
		}
	}
}
