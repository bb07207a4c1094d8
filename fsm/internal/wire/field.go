package wire

import (
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// Field is one field of an encoded message.
type Field struct {
	Number protowire.Number
	Wire   protowire.Type
	Text   string // of a length-delimited field: a string or a message
	Value  uint64 // of a varint
}

// IsText reports whether the field has this number and is length-delimited. A field of another
// type is treated as unknown.
func (f *Field) IsText(number protowire.Number) bool {
	return f.Number == number && f.Wire == protowire.BytesType
}

// IsVarint reports whether the field has this number and is a varint.
func (f *Field) IsVarint(number protowire.Number) bool {
	return f.Number == number && f.Wire == protowire.VarintType
}

// FieldsOf returns the fields of an encoded message, in the order of the bytes.
func FieldsOf(text string) func(yield func(Field) bool) {
	return func(yield func(Field) bool) {
		for text != "" {
			tag, n := uvarint(text)
			text = text[n:]
			f := Field{Number: protowire.Number(tag >> 3), Wire: protowire.Type(tag & 7)}
			switch f.Wire {
			case protowire.VarintType:
				f.Value, n = uvarint(text)
			case protowire.BytesType:
				var size uint64
				size, n = uvarint(text)
				f.Text = text[n : n+int(size)]
				n += int(size)
			default:
				n = protowire.ConsumeFieldValue(f.Number, f.Wire, []byte(text))
			}
			text = text[n:]
			if !yield(f) {
				return
			}
		}
	}
}

// uvarint returns a varint and its length.
func uvarint(text string) (v uint64, n int) {
	for i := range len(text) {
		v |= uint64(text[i]&0x7f) << (7 * i)
		if text[i] < 0x80 {
			return v, i + 1
		}
	}
	return v, len(text)
}

// PartialNumber returns a decoder for rows of which only one number is used. It stores the
// number in *at, a field of m.
func PartialNumber[P proto.Message](m P, number protowire.Number, at *uint64) func(row string) P {
	return func(row string) P {
		*at = 0
		for f := range FieldsOf(row) {
			if f.IsVarint(number) {
				*at = f.Value
			}
		}
		return m
	}
}
