package table

import (
	"slices"

	"google.golang.org/protobuf/proto"
)

// indexKey is a key in one of a table's indexes. A record does not hold those of its row: they
// follow from its message, and a fleet has many.
type indexKey struct {
	index int
	key   string
}

// entry is one entry of an index. Several rows may share an index key.
type entry struct{ key, row string }

func (e entry) less(o entry) bool {
	if e.key != o.key {
		return e.key < o.key
	}
	return e.row < o.row
}

// indexing adds the index keys of a row.
type indexing[P any] func(m P, add func(index int, key string))

// index adds the index entries of a new row.
func (t *Rowset) index(key string, m proto.Message) {
	for _, k := range t.keysOf(m) {
		t.indexes[k.index].Set(entry{k.key, key})
	}
}

// reindex updates the index entries of a row that m replaces, or of one that is deleted if m
// is nil. Most changes of a row change none.
func (t *Rowset) reindex(old row, m proto.Message) {
	if t.rules.index == nil {
		return
	}
	if b := old.box.Load(); b != nil && m != nil && t.rules.same != nil && t.rules.same(b.message, m) {
		t.guard.sameKeys(t, b.message, m)
		return
	}
	t.scratch.had = append(t.scratch.had[:0], t.keysOf(t.keyFields(old))...)
	had, has := t.scratch.had, []indexKey(nil)
	if m != nil {
		has = t.keysOf(m)
	}
	for _, k := range had {
		if !slices.Contains(has, k) {
			t.indexes[k.index].Delete(entry{k.key, old.key})
		}
	}
	for _, k := range has {
		if !slices.Contains(had, k) {
			t.indexes[k.index].Set(entry{k.key, old.key})
		}
	}
	clear(had)
}

// keyFields returns a message with the fields of a row that index keys depend on. It is valid
// until the next call.
func (t *Rowset) keyFields(r row) proto.Message {
	if r.box.Load() != nil || t.rules.partial == nil {
		return t.message(r)
	}
	if t.scratch.partial == nil {
		t.scratch.partial = t.rules.partial()
	}
	return t.scratch.partial(textOf(r.value()))
}

// keysOf returns the index keys of a row. They are valid until the next call.
func (t *Rowset) keysOf(m proto.Message) []indexKey {
	if t.rules.index == nil {
		return nil
	}
	if t.scratch.addKey == nil {
		t.scratch.addKey = func(index int, key string) { t.scratch.keys = append(t.scratch.keys, indexKey{index, key}) }
	}
	clear(t.scratch.keys)
	t.scratch.keys = t.scratch.keys[:0]
	t.rules.index(m, t.scratch.addKey)
	return t.scratch.keys
}
