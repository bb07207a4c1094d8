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
	cold atomic.Pointer[coldRows]
}

// coldRows has the encoded rows of a chunk.
type coldRows struct {
	page  *page
	spans []span
}

func (r *coldRows) row(i int) string { return textOf(r.spans[i].value(r.page.raw)) }

// slots has a message or an encoded row, which is a string, for each row.
type slots [chunkRows]any

// newChunk returns a chunk with the first slot taken.
func newChunk() *chunk {
	c := &chunk{}
	c.used.Store(1)
	c.hot.Store(&slots{})
	return c
}

// claim reserves slot i, unless another copy of the sequence has done so.
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
	return c.cold.Load().row(i)
}

// page returns the page of an encoded chunk, or nil.
func (c *chunk) page() *page {
	if cold := c.cold.Load(); cold != nil {
		return cold.page
	}
	return nil
}

// encode encodes a chunk of which this copy of the sequence has all rows.
func (s *series) encode(c *chunk, from uint64, b *pageBuilder) {
	hot := c.hot.Load()
	if hot == nil {
		return
	}
	var key []byte
	for i, row := range hot {
		key = s.numberKey(key[:0], from+uint64(i))
		b.add(textOf(key), row)
	}
	p, spans := b.build()
	s.guard.drop(c)
	c.cool(p, spans)
}

// cool replaces the messages of a chunk by a page. Readers look for it once the messages are
// gone. Concurrent calls are harmless: the bytes are the same.
func (c *chunk) cool(p *page, spans []span) {
	c.cold.Store(&coldRows{p, spans})
	c.hot.Store(nil)
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
