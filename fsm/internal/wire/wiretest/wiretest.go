// Package wiretest makes encoded messages for tests of code that reads them by hand. Only tests
// import it.
package wiretest

import (
	"slices"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// Full returns a message with every field set, down to a depth. Texts name their fields, so
// that all differ.
func Full(m protoreflect.Message, depth int) proto.Message {
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
	Full(sub, depth-1)
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

// Seeds returns encodings of messages, also truncated and repeated.
func Seeds(t testing.TB, all ...proto.Message) [][]byte {
	var seeds [][]byte
	for _, m := range all {
		raw, err := proto.MarshalOptions{Deterministic: true}.Marshal(Full(m.ProtoReflect(), 3))
		if err != nil {
			t.Fatal(err)
		}
		seeds = append(seeds, raw, slices.Concat(raw, raw), raw[:len(raw)/2])
	}
	return append(seeds, []byte("\x12\x06\x0a\x01a\x12\x01\xff"), []byte("\x00"), []byte("\x12\x02\x08\x01"),
		[]byte("\x80\x80\x80\x80\x10\x00"))
}

// OddFields returns each field with each type, whole and truncated.
func OddFields() [][]byte {
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
