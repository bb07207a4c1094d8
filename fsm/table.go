package fsm

import (
	"iter"

	"google.golang.org/protobuf/proto"

	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// schema says how a table's rows are keyed and indexed.
type schema[P proto.Message] struct {
	kind    internalv1.SnapshotRecord_Table
	key     func(P) string
	indexes int
	index   indexing[P] // may be nil if there are no indexes
	facets  faceting[P] // may be nil

	// glance makes what reads of an encoded row all that the three above look at, into the same
	// message each time. Nil: rows are decoded.
	glance func() func(row string) P
}

// rules returns the schema for messages of any type; others than its own make it panic.
func (s *schema[P]) rules() rules {
	var none P
	kind := none.ProtoReflect().Type()
	r := rules{kind: s.kind, indexes: s.indexes, fresh: func() proto.Message { return kind.New().Interface() }, key: func(m proto.Message) string { return s.key(m.(P)) }}
	if s.index != nil {
		r.index = func(m proto.Message, add func(int, string)) { s.index(m.(P), add) }
	}
	if s.facets != nil {
		r.facets = func(m proto.Message, visit func(string, string, string)) { s.facets(m.(P), visit) }
	}
	if s.glance != nil {
		r.glance = func() func(string) proto.Message {
			glance := s.glance()
			return func(row string) proto.Message { return glance(row) }
		}
	}
	return r
}

// table is a typed table with an O(1) copy: what a rowset does not know is the type. Reads decode:
// the caller owns what it gets.
type table[P proto.Message] struct{ *rowset }

func newTable[P proto.Message](s *schema[P]) *table[P] { return &table[P]{newRowset(s.rules())} }

// freeze returns an earlier copy if nothing has changed since, or else another one. It is not to be
// written to.
func (t *table[P]) freeze(since *table[P]) *table[P] {
	if since != nil && since.mark == t.mark {
		return since
	}
	return t.copy()
}

// copy returns one that later writes do not touch.
func (t *table[P]) copy() *table[P] { return &table[P]{t.rowset.copy()} }

func (t *table[P]) decode(r *record) P { return t.rowset.decode(r).(P) }

func (t *table[P]) get(key string) (m P, ok bool) {
	r, ok := t.rows.Get(&record{key: key})
	if ok {
		m = t.decode(r)
	}
	return m, ok
}

// put inserts or replaces the row of a message.
func (t *table[P]) put(m P) { t.write(m) }

// lookup returns the row that an index has under exactly key.
func (t *table[P]) lookup(index int, key string) (m P, ok bool) {
	t.scanRows(index, key, "", func(k string, r *record) bool {
		if ok = k == key; ok { // or a longer one
			m = t.decode(r)
		}
		return false
	})
	return m, ok
}

// ascend returns the rows with key > after that start with prefix, by key.
func (t *table[P]) ascend(prefix, after string) iter.Seq[P] {
	return func(yield func(P) bool) {
		t.rowsFrom(prefix, after, func(r *record) bool { return yield(t.decode(r)) })
	}
}

// descend returns the rows with key < before that start with prefix, by key, last first.
func (t *table[P]) descend(prefix, before string) iter.Seq[P] {
	return func(yield func(P) bool) {
		t.rowsBack(prefix, before, func(r *record) bool { return yield(t.decode(r)) })
	}
}

// find returns the rows with key > after that a query lets through, by key.
func (t *table[P]) find(q Query, after string) iter.Seq[P] {
	return func(yield func(P) bool) {
		t.findRows(q, after, func(r *record) bool { return yield(t.decode(r)) })
	}
}

// scan returns the rows whose index key starts with prefix and is above after, by index key.
func (t *table[P]) scan(index int, prefix, after string) iter.Seq2[string, P] {
	return func(yield func(string, P) bool) {
		t.scanRows(index, prefix, after, func(key string, r *record) bool { return yield(key, t.decode(r)) })
	}
}

// scanBack returns the rows whose index key starts with prefix and is below before, last first.
// An empty before starts at the end.
func (t *table[P]) scanBack(index int, prefix, before string) iter.Seq2[string, P] {
	return func(yield func(string, P) bool) {
		t.scanRowsBack(index, prefix, before, func(key string, r *record) bool { return yield(key, t.decode(r)) })
	}
}
