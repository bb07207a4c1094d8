package wire

import (
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/holdfast-metal/holdfast/fsm/internal/wire/wiretest"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// FuzzShape checks that bytes fit a shape if and only if they decode.
func FuzzShape(f *testing.F) {
	types := []proto.Message{&holdfastv1.Machine{}, &holdfastv1.HistoryEntry{}, &holdfastv1.Run{}, &holdfastv1.Plan{},
		&internalv1.Command{}, &internalv1.Meta{}}
	for i := range types {
		for _, raw := range wiretest.Seeds(f, types[i]) {
			f.Add(i, raw)
		}
	}
	var shapes []*Shape
	for _, m := range types {
		shapes = append(shapes, ShapeOf(m.ProtoReflect().Descriptor()))
	}
	same := func(t testing.TB, i int, raw []byte) {
		m := types[i].ProtoReflect().New().Interface()
		if err := proto.Unmarshal(raw, m); shapes[i].Fits(raw) != (err == nil) {
			t.Errorf("%s, %x: fits %v, decoding it: %v", m.ProtoReflect().Descriptor().Name(), raw, err != nil, err)
		}
	}
	for _, raw := range wiretest.OddFields() { // too many to be seeds
		for i := range types {
			same(f, i, raw)
		}
	}
	f.Fuzz(func(t *testing.T, i int, raw []byte) { same(t, max(0, i%len(types)), raw) })
}
