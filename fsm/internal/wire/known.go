package wire

import (
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// Known reports whether every field and enum value in bytes that decode is declared. If it
// returns false, only the decoded message can tell: a map entry may have an unknown field, for
// example, which is dropped.
func (s *Shape) Known(raw []byte) bool {
	for len(raw) > 0 {
		number, wire, n := protowire.ConsumeTag(raw)
		if n < 0 || int(number) >= len(s.fields) || s.fields[number] == nil {
			return false
		}
		f := s.fields[number]
		raw = raw[n:]
		switch {
		case wire == protowire.BytesType:
			var value []byte
			if value, n = protowire.ConsumeBytes(raw); n < 0 || !f.knowsBytes(value) {
				return false
			}
		case wire != f.wire:
			return false
		case f.values != nil:
			var value uint64
			if value, n = protowire.ConsumeVarint(raw); n < 0 || !f.values[value] {
				return false
			}
		default:
			if n = protowire.ConsumeFieldValue(number, wire, raw); n < 0 {
				return false
			}
		}
		raw = raw[n:]
	}
	return true
}

// knowsBytes reports whether a length-delimited value of the field is known.
func (f *fieldShape) knowsBytes(value []byte) bool {
	switch {
	case f.sub != nil:
		return f.wire == protowire.BytesType && f.sub.Known(value)
	case f.wire == protowire.BytesType:
		return true
	case f.packed == protowire.BytesType || f.values == nil:
		return f.packed != protowire.BytesType // packed numbers
	}
	for len(value) > 0 {
		v, n := protowire.ConsumeVarint(value)
		if n < 0 || !f.values[v] {
			return false
		}
		value = value[n:]
	}
	return true
}

// wireOf returns the wire type of one value of a kind.
func wireOf(kind protoreflect.Kind) protowire.Type {
	if kind == protoreflect.GroupKind {
		return protowire.StartGroupType
	}
	return packedType(kind)
}

// valuesOf returns the declared values of an enum, or nil.
func valuesOf(fd protoreflect.FieldDescriptor) map[uint64]bool {
	if fd.Enum() == nil {
		return nil
	}
	known := map[uint64]bool{}
	for i := range fd.Enum().Values().Len() {
		known[uint64(fd.Enum().Values().Get(i).Number())] = true
	}
	return known
}
