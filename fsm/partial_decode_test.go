package fsm

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/holdfast-metal/holdfast/fsm/internal/lifecycle"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// full returns a message with every field set, down to a depth. Texts name their fields, so
// that all differ.
func full(m protoreflect.Message, depth int) proto.Message {
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		fd := fields.Get(i)
		switch {
		case fd.IsMap():
			value := fd.MapValue()
			m.Mutable(fd).Map().Set(sample(fd.MapKey(), m, depth).MapKey(), sample(value, m, depth))
		case fd.IsList():
			m.Mutable(fd).List().Append(sample(fd, m, depth))
			m.Mutable(fd).List().Append(sample(fd, m, depth))
		case fd.Message() == nil || depth > 0:
			m.Set(fd, sample(fd, m, depth))
		}
	}
	return m.Interface()
}

func sample(fd protoreflect.FieldDescriptor, m protoreflect.Message, depth int) protoreflect.Value {
	switch fd.Kind() {
	case protoreflect.StringKind:
		return protoreflect.ValueOfString(string(fd.FullName()))
	case protoreflect.BytesKind:
		return protoreflect.ValueOfBytes([]byte(fd.FullName()))
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(true)
	case protoreflect.EnumKind:
		return protoreflect.ValueOfEnum(fd.Enum().Values().Get(fd.Enum().Values().Len() / 2).Number())
	case protoreflect.Int32Kind, protoreflect.Sint32Kind, protoreflect.Sfixed32Kind:
		return protoreflect.ValueOfInt32(int32(-fd.Number()))
	case protoreflect.Int64Kind, protoreflect.Sint64Kind, protoreflect.Sfixed64Kind:
		return protoreflect.ValueOfInt64(int64(-fd.Number()))
	case protoreflect.Uint32Kind, protoreflect.Fixed32Kind:
		return protoreflect.ValueOfUint32(uint32(fd.Number()))
	case protoreflect.Uint64Kind, protoreflect.Fixed64Kind:
		return protoreflect.ValueOfUint64(uint64(fd.Number()))
	case protoreflect.FloatKind:
		return protoreflect.ValueOfFloat32(1.5)
	case protoreflect.DoubleKind:
		return protoreflect.ValueOfFloat64(2.5)
	}
	var sub protoreflect.Message
	switch {
	case fd.ContainingMessage().IsMapEntry():
		sub = dynamicOf(m, fd)
	case fd.IsList():
		sub = m.NewField(fd).List().NewElement().Message()
	default:
		sub = m.NewField(fd).Message()
	}
	full(sub, depth-1)
	return protoreflect.ValueOfMessage(sub)
}

// dynamicOf returns an empty value for a map of messages.
func dynamicOf(m protoreflect.Message, value protoreflect.FieldDescriptor) protoreflect.Message {
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		if fd := fields.Get(i); fd.IsMap() && fd.MapValue() == value {
			return m.NewField(fd).Map().NewValue().Message()
		}
	}
	return nil
}

// wireSeeds returns encodings of messages, also truncated and repeated.
func wireSeeds(t testing.TB, all ...proto.Message) [][]byte {
	var seeds [][]byte
	for _, m := range all {
		raw, err := proto.MarshalOptions{Deterministic: true}.Marshal(full(m.ProtoReflect(), 3))
		if err != nil {
			t.Fatal(err)
		}
		seeds = append(seeds, raw, slices.Concat(raw, raw), raw[:len(raw)/2])
	}
	return append(seeds, []byte("\x12\x06\x0a\x01a\x12\x01\xff"), []byte("\x00"), []byte("\x12\x02\x08\x01"),
		[]byte("\x80\x80\x80\x80\x10\x00"))
}

// oddFields returns each field with each type, whole and truncated.
func oddFields() [][]byte {
	var all [][]byte
	for number := protowire.Number(1); number < 60; number++ {
		for wire := protowire.VarintType; wire <= protowire.Fixed32Type; wire++ {
			tag := protowire.AppendTag(nil, number, wire)
			all = append(all, slices.Concat(tag, []byte("\x04\x0a\x02\xff\x01")), slices.Concat(tag, []byte("\x03abc")),
				slices.Concat(tag, []byte("\x08\x01\x02\x03\x04\x05\x06\x07\x08")))
		}
	}
	return all
}

// FuzzShape checks that bytes fit a shape if and only if they decode.
func FuzzShape(f *testing.F) {
	types := []proto.Message{&holdfastv1.Machine{}, &holdfastv1.HistoryEntry{}, &holdfastv1.Run{}, &holdfastv1.Plan{},
		&internalv1.Command{}, &internalv1.Meta{}}
	for i := range types {
		for _, raw := range wireSeeds(f, types[i]) {
			f.Add(i, raw)
		}
	}
	var shapes []*shape
	for _, m := range types {
		shapes = append(shapes, shapeOf(m.ProtoReflect().Descriptor()))
	}
	same := func(t testing.TB, i int, raw []byte) {
		m := types[i].ProtoReflect().New().Interface()
		if err := proto.Unmarshal(raw, m); shapes[i].fits(raw) != (err == nil) {
			t.Errorf("%s, %x: fits %v, decoding it: %v", m.ProtoReflect().Descriptor().Name(), raw, err != nil, err)
		}
	}
	for _, raw := range oddFields() { // too many to be seeds
		for i := range types {
			same(f, i, raw)
		}
	}
	f.Fuzz(func(t *testing.T, i int, raw []byte) { same(t, max(0, i%len(types)), raw) })
}

// seen is the data that a bulk loader reads from a row.
type seen struct {
	Key    string
	Index  []indexKey
	Facets map[[2]string]int
}

func seenOf[P proto.Message](s *schema[P], m P) seen {
	v := seen{Key: s.key(m), Facets: map[[2]string]int{}}
	if s.index != nil {
		s.index(m, func(index int, key string) { v.Index = append(v.Index, indexKey{index, key}) })
	}
	if s.facets != nil {
		s.facets(m, func(prefix, name, value string) { v.Facets[[2]string{prefix + name, value}]++ })
	}
	return v
}

// FuzzGlance checks that partial decoding returns the values of the full message, whatever it
// decoded before.
func FuzzGlance(f *testing.F) {
	seeds := wireSeeds(f, &holdfastv1.Machine{}, &holdfastv1.HistoryEntry{}, &holdfastv1.AuditEvent{},
		&holdfastv1.Event{}, &holdfastv1.RunEvent{}, &internalv1.Lease{})
	for _, state := range holdfastv1.Node_State_value {
		raw, err := proto.Marshal(&holdfastv1.Machine{MachineId: "m",
			Status: &holdfastv1.MachineStatus{NodeState: holdfastv1.Node_State(state), AgentState: holdfastv1.Agent_READY,
				Conditions: []*holdfastv1.Condition{{Type: lifecycle.Degraded, Status: true}, {Type: "Reachable"},
					{Type: lifecycle.InCluster}}}, Spec: &holdfastv1.MachineSpec{Pool: "p"},
			Node: &holdfastv1.NodeRecord{StateChangedAt: &timestamppb.Timestamp{Seconds: 1e9, Nanos: 5}}})
		if err != nil {
			f.Fatal(err)
		}
		seeds = append(seeds, raw)
	}
	for i, raw := range seeds {
		f.Add(raw, seeds[(i+1)%len(seeds)])
	}
	for _, raw := range oddFields() {
		sameSeenByAll(f, seeds[0], raw)
	}
	f.Fuzz(func(t *testing.T, before, raw []byte) {
		sameSeenByAll(t, before, raw)
	})
}

// sameSeenByAll checks rows of all tables with a partial decoder.
func sameSeenByAll(t testing.TB, rows ...[]byte) {
	t.Helper()
	sameSeen(t, machineSchema(), rows...)
	sameSeen(t, historySchema(), rows...)
	sameSeen(t, auditSchema(), rows...)
	sameSeen(t, newsSchema(), rows...)
	sameSeen(t, eventSchema(), rows...)
	sameSeen(t, leaseSchema(), rows...)
}

func sameSeen[P proto.Message](t testing.TB, s *schema[P], rows ...[]byte) {
	t.Helper()
	partial := s.partial()
	for _, raw := range rows {
		m := s.rules().fresh().(P)
		if proto.Unmarshal(raw, m) != nil {
			continue
		}
		if diff := cmp.Diff(seenOf(s, m), seenOf(s, partial(string(raw))), cmp.AllowUnexported(indexKey{})); diff != "" {
			t.Errorf("%s, %x (-full +partial):\n%s", m.ProtoReflect().Descriptor().Name(), raw, diff)
		}
	}
}

// TestGlanceMakesNoGarbage checks that partial decoding allocates only texts.
func TestGlanceMakesNoGarbage(t *testing.T) {
	raw, err := proto.Marshal(full((&holdfastv1.Machine{}).ProtoReflect(), 3))
	if err != nil {
		t.Fatal(err)
	}
	row, partial, s := string(raw), partialMachine(), shapeOf((&holdfastv1.Machine{}).ProtoReflect().Descriptor())
	if got := testing.AllocsPerRun(100, func() { s.fits(raw); partial(row) }); got > 0 {
		t.Errorf("got %v allocations a row, want none", got)
	}
}
