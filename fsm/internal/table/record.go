package table

import (
	"fmt"
	"sync"
	"sync/atomic"

	"google.golang.org/protobuf/proto"
)

// A row is a message that all readers share. Most rows are read as messages, and many are
// replaced before a snapshot needs their bytes, so a row is encoded on demand. From then on
// the table keeps only the bytes: they need half the memory, and the garbage collector does
// not visit their parts.

// Record is one row. Its contents never change.
type Record struct {
	box    atomic.Pointer[box] // the message; nil if the row is encoded
	value  []byte              // the encoded message, if box is nil
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
	if err := proto.Unmarshal(r.value, m); err != nil {
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

// encoded returns the bytes of a row.
func (t *Rowset) encoded(r row) []byte {
	b := r.box.Load()
	if b == nil {
		return r.value
	}
	value := mustEncode(b.message)
	t.guard.drop(r)
	if !t.rules.decoded {
		t.cool.cool(r.Record, value)
	}
	return value
}

func mustEncode(m proto.Message) []byte { return appendEncoded(nil, m) }

// appendEncoded appends the bytes of a message.
func appendEncoded(to []byte, m proto.Message) []byte {
	value, err := proto.MarshalOptions{Deterministic: true}.MarshalAppend(to, m)
	if err != nil { // only for a string that is not UTF-8, which the edge refuses
		panic(fmt.Sprintf("encode record of %v: %v", m.ProtoReflect().Descriptor().Name(), err))
	}
	return value
}

// cooling replaces messages by their bytes. Copies of a table share records, and therefore it.
type cooling struct{ mu sync.Mutex }

// cool replaces the message of a row by its bytes. Readers look at the bytes only once the
// message is gone.
func (c *cooling) cool(r *Record, value []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r.box.Load() != nil {
		r.value = value
		r.box.Store(nil)
	}
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
