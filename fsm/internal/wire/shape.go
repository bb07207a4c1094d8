// Package wire checks and reads encoded messages without decoding them. It must not know what
// they mean.
package wire

import (
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// Shape checks whether bytes decode as messages of one type, and whether all fields are known,
// without decoding them. A snapshot has millions of rows, and most of the cost of decoding one is
// garbage collection.
type Shape struct{ fields []*fieldShape } // by field number; nil if there is none

// fieldShape is the constraint on a field's bytes, besides its encoding.
type fieldShape struct {
	sub    *Shape          // set for a message or a map entry
	text   bool            // must be UTF-8
	packed protowire.Type  // of the elements if they may be packed, else BytesType
	wire   protowire.Type  // of one value
	values map[uint64]bool // the declared values of an enum, else nil
}

// ShapeOf returns the shape of a message type.
func ShapeOf(md protoreflect.MessageDescriptor) *Shape {
	return shapeWithin(md, map[protoreflect.FullName]*Shape{})
}

// shapeWithin returns the shape of md. known memoizes shapes, including those under
// construction, so that recursive types terminate.
func shapeWithin(md protoreflect.MessageDescriptor, known map[protoreflect.FullName]*Shape) *Shape {
	if s := known[md.FullName()]; s != nil {
		return s
	}
	s := &Shape{}
	known[md.FullName()] = s
	for i := range md.Fields().Len() {
		fd := md.Fields().Get(i)
		f := &fieldShape{text: fd.Kind() == protoreflect.StringKind, packed: protowire.BytesType,
			wire: wireOf(fd.Kind()), values: valuesOf(fd)}
		if fd.Message() != nil {
			f.sub = shapeWithin(fd.Message(), known)
		}
		if fd.IsList() {
			f.packed = packedType(fd.Kind())
		}
		for len(s.fields) <= int(fd.Number()) {
			s.fields = append(s.fields, nil)
		}
		s.fields[fd.Number()] = f
	}
	return s
}

func packedType(kind protoreflect.Kind) protowire.Type {
	switch kind {
	case protoreflect.StringKind, protoreflect.BytesKind, protoreflect.MessageKind, protoreflect.GroupKind:
		return protowire.BytesType
	case protoreflect.Fixed32Kind, protoreflect.Sfixed32Kind, protoreflect.FloatKind:
		return protowire.Fixed32Type
	case protoreflect.Fixed64Kind, protoreflect.Sfixed64Kind, protoreflect.DoubleKind:
		return protowire.Fixed64Type
	default:
		return protowire.VarintType
	}
}

// Fits reports whether proto.Unmarshal accepts the bytes. Like Unmarshal, it treats a field
// of the wrong type as unknown.
func (s *Shape) Fits(raw []byte) bool {
	for len(raw) > 0 {
		number, wire, n := protowire.ConsumeTag(raw)
		if n < 0 || number > protowire.MaxValidNumber {
			return false
		}
		raw = raw[n:]
		if wire != protowire.BytesType {
			if n = protowire.ConsumeFieldValue(number, wire, raw); n < 0 {
				return false
			}
			raw = raw[n:]
			continue
		}
		value, n := protowire.ConsumeBytes(raw)
		if n < 0 || int(number) < len(s.fields) && !s.fields[number].fits(value) {
			return false
		}
		raw = raw[n:]
	}
	return true
}

// fits reports whether a length-delimited value is valid for the field.
func (f *fieldShape) fits(value []byte) bool {
	switch {
	case f == nil:
		return true
	case f.sub != nil:
		return f.sub.Fits(value)
	case f.text:
		return utf8.Valid(value)
	case f.packed == protowire.BytesType:
		return true
	}
	for len(value) > 0 {
		n := protowire.ConsumeFieldValue(1, f.packed, value)
		if n < 0 {
			return false
		}
		value = value[n:]
	}
	return true
}
