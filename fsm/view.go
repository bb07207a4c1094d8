package fsm

import (
	"encoding/binary"
	"encoding/hex"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// View is the state at one index. It never changes, and the caller owns every message it
// returns. Its queries are in the file of their resource, next to the commands.
type View struct {
	*state
	codec   *logCodec
	decoded *planCache
}

// Index returns the index of the last entry that the view includes.
func (v *View) Index() uint64 { return v.meta.GetAppliedIndex() }

// Meta returns the state outside the tables: epoch, leader, cluster id, feature level.
func (v *View) Meta() *internalv1.Meta { return proto.CloneOf(v.meta) }

// ordered returns a printable key that sorts by number.
func ordered(n uint64) string {
	var key [orderedSize]byte
	return string(appendOrdered(key[:0], n))
}

// orderedSize is the length of an ordered number, in bytes.
const orderedSize = 16

func appendOrdered(to []byte, n uint64) []byte {
	return hex.AppendEncode(to, binary.BigEndian.AppendUint64(nil, n))
}

// orderedTime returns a printable key that sorts by time and then by id.
func orderedTime(t *timestamppb.Timestamp, id string) string {
	key := make([]byte, 0, 96) // enough for most ids; stays on the stack
	key = appendOrdered(key, uint64(t.AsTime().UnixNano()))
	return string(append(append(key, '.'), id...))
}

// Sizes returns the number of records in each table, by table name.
func (v *View) Sizes() map[string]int {
	sizes := map[string]int{}
	for _, t := range v.tables() {
		sizes[t.name()] = t.len()
	}
	return sizes
}
