package table

import (
	"fmt"
	"sync/atomic"

	"google.golang.org/protobuf/proto"
)

// A row is a message that all readers share. Most rows are read as messages, and many are
// replaced before a snapshot needs their bytes, so a row is encoded on demand. From then on
// the table keeps only the bytes: they need half the memory, and the garbage collector does
// not visit their parts.

// Record is one row. Its contents never change, but their form does: a reader that finds no
// message finds bytes.
type Record struct {
	box    atomic.Pointer[box]  // the message; nil if the table keeps only the bytes
	cell   atomic.Pointer[cell] // the bytes; nil if the row was not encoded yet
	facets []*facet
}

// box holds the message of a row.
type box struct{ message proto.Message }

// newRecord returns the record of a message, which nobody may change any more.
func newRecord(m proto.Message) *Record {
	r := &Record{}
	r.box.Store(&box{m})
	return r
}

// message returns the message of a row. It is shared: nobody may change it. It panics if the
// bytes do not decode: only write and the bulk loader make records, and the loader checks
// them.
func (t *Rowset) message(r row) proto.Message {
	if b := r.box.Load(); b != nil {
		return b.message
	}
	m := t.rules.fresh()
	if err := proto.Unmarshal(r.value(), m); err != nil {
		panic(fmt.Sprintf("decode record %q of %v: %v", r.key, t.rules.kind, err))
	}
	if t.rules.decoded {
		r.box.Store(&box{m})
	}
	return m
}

// private returns a copy of the message of a row.
func (t *Rowset) private(r row) proto.Message {
	shared := r.box.Load() != nil || t.rules.decoded
	m := t.message(r)
	if shared {
		return proto.Clone(m)
	}
	return m
}

// value returns the bytes of an encoded row.
func (r *Record) value() []byte { return r.cell.Load().value() }

// encoded returns the bytes of a row. If they are new, they replace the message.
func (t *Rowset) encoded(r row) []byte {
	if c := r.cell.Load(); c != nil {
		return c.value()
	}
	value := t.encode(nil, r)
	t.settle(r, loneCell(value))
	return value
}

// encode appends the bytes of a row. They are the same however often it is encoded.
func (t *Rowset) encode(to []byte, r row) []byte {
	if c := r.cell.Load(); c != nil {
		return append(to, c.value()...)
	}
	b := r.box.Load()
	if b == nil { // encoded since
		return append(to, r.value()...)
	}
	return appendEncoded(to, b.message)
}

// settle stores the bytes of a row in c. Readers look for bytes once the message is gone, so
// the order matters. Concurrent calls for one row are harmless: its bytes are the same.
func (t *Rowset) settle(r row, c *cell) {
	t.guard.drop(r)
	r.cell.Store(c)
	if !t.rules.decoded {
		r.box.Store(nil)
	}
}

func mustEncode(m proto.Message) []byte { return appendEncoded(nil, m) }

// appendEncoded appends the bytes of a message.
func appendEncoded(to []byte, m proto.Message) []byte {
	to, err := proto.MarshalOptions{Deterministic: true}.MarshalAppend(to, m)
	if err != nil { // only for a string that is not UTF-8, which the edge refuses
		panic(fmt.Sprintf("encode record of %v: %v", m.ProtoReflect().Descriptor().Name(), err))
	}
	return to
}

// Facet returns the value of a row under the path of a facet.
func (r *Record) Facet(path string) (value string, ok bool) {
	for _, f := range r.facets {
		if f.path == path {
			return f.value, true
		}
	}
	return "", false
}
