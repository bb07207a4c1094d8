// Package table stores records in copy-on-write B-trees, with their indexes and facets, or in
// numbered sequences, and reads and writes them as a snapshot. A schema defines the key, the
// index keys and the facets of a message. It must not know what the records mean, nor read a
// clock: what it stores and writes depends on the rows alone.
package table

import (
	"iter"

	"google.golang.org/protobuf/proto"

	"github.com/holdfast-metal/holdfast/fsm/internal/wire"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// Schema defines the key, the indexes and the facets of a table's rows.
type Schema[P proto.Message] struct {
	Kind    internalv1.SnapshotRecord_Table
	Key     func(P) string
	Indexes int
	Index   indexing[P] // nil if there are no indexes
	Facets  faceting[P] // may be nil

	// SameKeys reports whether two versions of a row certainly have the same index keys. It is
	// cheaper than computing them. It may be nil.
	SameKeys func(old, m P) bool

	// Fields has the paths of the fields that Key, Index, Facets and Number use. The bulk loader
	// decodes no others: with all of them, a restore takes 1.3 to 1.5 times as long, and the check
	// of a file 2 to 3 times (BenchmarkSnapshot). If empty, rows are decoded in full. A text of a
	// row that is decoded in part is a part of its bytes, so Index must not add one as it is,
	// except for the row's own key.
	Fields []string

	// Number returns the number of a row of a sequence, and NumberKey appends its key.
	Number    func(P) uint64
	NumberKey func(to []byte, number uint64) []byte

	// Decoded tables keep their messages once they are encoded or read: few rows, read often.
	Decoded bool
}

// rules returns the untyped schema. Its functions panic on messages of another type.
func (s *Schema[P]) rules() rules {
	var none P
	kind := none.ProtoReflect().Type()
	r := rules{
		kind: s.Kind, indexes: s.Indexes, decoded: s.Decoded, fresh: func() proto.Message { return kind.New().Interface() },
		key: func(m proto.Message) string { return s.Key(m.(P)) },
	}
	if s.Index != nil {
		r.index = func(m proto.Message, add func(int, string)) { s.Index(m.(P), add) }
	}
	if s.SameKeys != nil {
		r.same = func(old, m proto.Message) bool { return s.SameKeys(old.(P), m.(P)) }
	}
	if s.Facets != nil {
		r.facets = func(m proto.Message, visit func(string, string, string)) { s.Facets(m.(P), visit) }
	}
	if len(s.Fields) > 0 {
		r.partial = func() partialDecoder { return wire.Partial(r.fresh(), s.Fields...) }
	}
	return r
}

// Table is a rowset with the type of its messages, and an O(1) copy. Its rows are shared with
// all copies: nobody may change a message that was read or stored. Edit returns one to change.
type Table[P proto.Message] struct{ *Rowset }

// New returns an empty table.
func New[P proto.Message](s *Schema[P]) *Table[P] { return &Table[P]{newRowset(s.rules())} }

// Freeze returns since if nothing has changed since that copy, or else a new copy. The result
// is read-only.
func (t *Table[P]) Freeze(since *Table[P]) *Table[P] {
	if since != nil && since.mark.at == t.mark.at {
		return since
	}
	return t.Copy()
}

// Copy returns a copy that later writes do not affect.
func (t *Table[P]) Copy() *Table[P] { return &Table[P]{t.Rowset.copy()} }

// of returns the message of a row.
func (t *Table[P]) of(r row) P { return t.message(r).(P) }

// Get returns the row under a key.
func (t *Table[P]) Get(key string) (m P, ok bool) {
	r, ok := t.find(key)
	if ok {
		m = t.of(r)
	}
	return m, ok
}

// Edit returns a copy of the row under a key. It belongs to the caller until it is stored.
func (t *Table[P]) Edit(key string) (m P, ok bool) {
	r, ok := t.find(key)
	if ok {
		m = t.private(r).(P)
	}
	return m, ok
}

// Put inserts or replaces the row of m, which nobody may change any more.
func (t *Table[P]) Put(m P) { t.write(m) }

// Lookup returns the row with exactly this key in an index.
func (t *Table[P]) Lookup(index int, key string) (m P, ok bool) {
	t.scanRows(index, key, "", func(k string, r row) bool {
		if ok = k == key; ok { // the scan may return a longer key
			m = t.of(r)
		}
		return false
	})
	return m, ok
}

// Ascend returns the rows with the prefix and a key > after, by key.
func (t *Table[P]) Ascend(prefix, after string) iter.Seq[P] {
	return func(yield func(P) bool) {
		t.rowsFrom(prefix, after, func(r row) bool { return yield(t.of(r)) })
	}
}

// Descend returns the rows with the prefix and a key < before, last first.
func (t *Table[P]) Descend(prefix, before string) iter.Seq[P] {
	return func(yield func(P) bool) {
		t.rowsBack(prefix, before, func(r row) bool { return yield(t.of(r)) })
	}
}

// Find returns the rows with a key > after that q selects, by key.
func (t *Table[P]) Find(q Query, after string) iter.Seq[P] {
	return func(yield func(P) bool) {
		t.findRows(q, after, func(r row) bool { return yield(t.of(r)) })
	}
}

// Scan returns the rows whose index key has the prefix and is above after, by index key.
func (t *Table[P]) Scan(index int, prefix, after string) iter.Seq2[string, P] {
	return func(yield func(string, P) bool) {
		t.scanRows(index, prefix, after, func(key string, r row) bool { return yield(key, t.of(r)) })
	}
}

// ScanBack returns the rows whose index key has the prefix and is below before, last first.
// An empty before starts at the end.
func (t *Table[P]) ScanBack(index int, prefix, before string) iter.Seq2[string, P] {
	return func(yield func(string, P) bool) {
		t.scanRowsBack(index, prefix, before, func(key string, r row) bool { return yield(key, t.of(r)) })
	}
}
