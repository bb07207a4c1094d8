package fsm

import (
	"iter"

	"google.golang.org/protobuf/proto"

	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// schema defines the key, the indexes and the facets of a table's rows.
type schema[P proto.Message] struct {
	kind    internalv1.SnapshotRecord_Table
	key     func(P) string
	indexes int
	index   indexing[P] // nil if there are no indexes
	facets  faceting[P] // may be nil

	// partial returns a partial decoder: it reads the fields that key, index and facets use,
	// into the same message each time. If nil, rows are decoded in full.
	partial func() func(row string) P
}

// rules returns the untyped schema. Its functions panic on messages of another type.
func (s *schema[P]) rules() rules {
	var none P
	kind := none.ProtoReflect().Type()
	r := rules{
		kind: s.kind, indexes: s.indexes, fresh: func() proto.Message { return kind.New().Interface() },
		key: func(m proto.Message) string { return s.key(m.(P)) },
	}
	if s.index != nil {
		r.index = func(m proto.Message, add func(int, string)) { s.index(m.(P), add) }
	}
	if s.facets != nil {
		r.facets = func(m proto.Message, visit func(string, string, string)) { s.facets(m.(P), visit) }
	}
	if s.partial != nil {
		r.partial = func() func(string) proto.Message {
			partial := s.partial()
			return func(row string) proto.Message { return partial(row) }
		}
	}
	return r
}

// table is a rowset with the type of its messages, and an O(1) copy. Reads decode, so the
// caller owns the message.
type table[P proto.Message] struct{ *rowset }

func newTable[P proto.Message](s *schema[P]) *table[P] { return &table[P]{newRowset(s.rules())} }

// freeze returns since if nothing has changed since that copy, or else a new copy. The result
// is read-only.
func (t *table[P]) freeze(since *table[P]) *table[P] {
	if since != nil && since.mark == t.mark {
		return since
	}
	return t.copy()
}

// copy returns a copy that later writes do not affect.
func (t *table[P]) copy() *table[P] { return &table[P]{t.rowset.copy()} }

func (t *table[P]) decode(r *record) P { return t.rowset.decode(r).(P) }

func (t *table[P]) get(key string) (m P, ok bool) {
	r, ok := t.rows.Get(&record{key: key})
	if ok {
		m = t.decode(r)
	}
	return m, ok
}

// put inserts or replaces the row of m.
func (t *table[P]) put(m P) { t.write(m) }

// lookup returns the row with exactly this key in an index.
func (t *table[P]) lookup(index int, key string) (m P, ok bool) {
	t.scanRows(index, key, "", func(k string, r *record) bool {
		if ok = k == key; ok { // the scan may return a longer key
			m = t.decode(r)
		}
		return false
	})
	return m, ok
}

// ascend returns the rows with the prefix and a key > after, by key.
func (t *table[P]) ascend(prefix, after string) iter.Seq[P] {
	return func(yield func(P) bool) {
		t.rowsFrom(prefix, after, func(r *record) bool { return yield(t.decode(r)) })
	}
}

// descend returns the rows with the prefix and a key < before, last first.
func (t *table[P]) descend(prefix, before string) iter.Seq[P] {
	return func(yield func(P) bool) {
		t.rowsBack(prefix, before, func(r *record) bool { return yield(t.decode(r)) })
	}
}

// find returns the rows with a key > after that q selects, by key.
func (t *table[P]) find(q Query, after string) iter.Seq[P] {
	return func(yield func(P) bool) {
		t.findRows(q, after, func(r *record) bool { return yield(t.decode(r)) })
	}
}

// scan returns the rows whose index key has the prefix and is above after, by index key.
func (t *table[P]) scan(index int, prefix, after string) iter.Seq2[string, P] {
	return func(yield func(string, P) bool) {
		t.scanRows(index, prefix, after, func(key string, r *record) bool { return yield(key, t.decode(r)) })
	}
}

// scanBack returns the rows whose index key has the prefix and is below before, last first.
// An empty before starts at the end.
func (t *table[P]) scanBack(index int, prefix, before string) iter.Seq2[string, P] {
	return func(yield func(string, P) bool) {
		t.scanRowsBack(index, prefix, before, func(key string, r *record) bool { return yield(key, t.decode(r)) })
	}
}
