package schema

import (
	"encoding/binary"
	"encoding/hex"

	"google.golang.org/protobuf/types/known/timestamppb"
)

// Ordered returns a printable key that sorts by number.
func Ordered(n uint64) string {
	var key [OrderedSize]byte
	return string(appendOrdered(key[:0], n))
}

// OrderedSize is the length of an ordered number, in bytes.
const OrderedSize = 16

func appendOrdered(to []byte, n uint64) []byte {
	return hex.AppendEncode(to, binary.BigEndian.AppendUint64(nil, n))
}

// OrderedTime returns a printable key that sorts by time and then by id.
func OrderedTime(t *timestamppb.Timestamp, id string) string {
	key := make([]byte, 0, 96) // enough for most ids; stays on the stack
	key = appendOrdered(key, uint64(t.AsTime().UnixNano()))
	return string(append(append(key, '.'), id...))
}
