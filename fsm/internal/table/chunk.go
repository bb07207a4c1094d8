package table

import (
	"fmt"
	"sync/atomic"
	"unsafe"

	"google.golang.org/protobuf/proto"
)

// chunkRows is the number of rows in a chunk of a sequence.
const chunkRows = 256

// chunk has consecutive rows of a sequence. Copies of the sequence share it, and each sees the
// rows below its own end. The first snapshot that has all of its rows encodes a chunk. From
// then on the chunk has no messages, so the garbage collector visits few objects.
type chunk struct {
	used atomic.Int32          // the number of slots that a copy of the sequence has taken
	hot  atomic.Pointer[slots] // nil once the chunk is encoded
	cold []string              // the encoded rows, if hot is nil
}

// slots has a message or an encoded row, which is a string, for each row.
type slots [chunkRows]any

// newChunk returns a chunk with the first slot taken.
func newChunk() *chunk {
	c := &chunk{}
	c.used.Store(1)
	c.hot.Store(&slots{})
	return c
}

// claim takes slot i, unless another copy of the sequence has done so.
func (c *chunk) claim(i int) bool { return c.used.CompareAndSwap(int32(i), int32(i+1)) }

// fork returns a copy of the slots before i, with slot i taken.
func (c *chunk) fork(i int) *chunk {
	f := newChunk()
	f.used.Store(int32(i + 1))
	for j := range i {
		f.hot.Load()[j] = c.row(j)
	}
	return f
}

// row returns a message or an encoded row.
func (c *chunk) row(i int) any {
	if hot := c.hot.Load(); hot != nil {
		return hot[i]
	}
	return c.cold[i]
}

// encoded returns the bytes of a row.
func (c *chunk) encoded(i int) []byte {
	if hot := c.hot.Load(); hot != nil {
		return appendRow(nil, hot[i])
	}
	return bytesOf(c.cold[i])
}

// encode encodes a chunk of which this copy of the sequence has all rows. It needs a buffer,
// and returns it.
func (s *series) encode(c *chunk, room []byte) []byte {
	hot := c.hot.Load()
	if hot == nil {
		return room
	}
	var ends [chunkRows]int
	room = room[:0]
	for i, row := range hot {
		room = appendRow(room, row)
		ends[i] = len(room)
	}
	all, cold, from := string(room), make([]string, chunkRows), 0
	for i, end := range ends {
		cold[i], from = all[from:end], end
	}
	s.guard.drop(c)
	s.cool.chunk(c, cold)
	return room
}

// chunk replaces the messages of a chunk by their bytes: see cool.
func (c *cooling) chunk(of *chunk, cold []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if of.hot.Load() != nil {
		of.cold = cold
		of.hot.Store(nil)
	}
}

// appendRow appends the bytes of a slot.
func appendRow(to []byte, row any) []byte {
	if text, ok := row.(string); ok {
		return append(to, text...)
	}
	return appendEncoded(to, row.(proto.Message))
}

// decode returns the message of a slot. It panics if the bytes do not decode, because the bulk
// loader has checked them.
func (r rules) decode(row any) proto.Message {
	text, encoded := row.(string)
	if !encoded {
		return row.(proto.Message)
	}
	m := r.fresh()
	if err := proto.Unmarshal(bytesOf(text), m); err != nil {
		panic(fmt.Sprintf("decode row of %v: %v", r.kind, err))
	}
	return m
}

// bytesOf returns a string as bytes that nobody may change, without a copy.
func bytesOf(text string) []byte {
	return unsafe.Slice(unsafe.StringData(text), len(text)) //nolint:gosec // nobody changes them
}
