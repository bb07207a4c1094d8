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
	t.room.had = append(t.room.had[:0], t.keysOf(t.glance(old))...)
	had, has := t.room.had, []indexKey(nil)
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

// glance returns a message with the fields of a row that index keys depend on. It is valid
// until the next call.
func (t *Rowset) glance(r row) proto.Message {
	if r.box.Load() != nil || t.rules.partial == nil {
		return t.message(r)
	}
	if t.room.partial == nil {
		t.room.partial = t.rules.partial()
	}
	return t.room.partial(textOf(r.value()))
}

// keysOf returns the index keys of a row. They are valid until the next call.
func (t *Rowset) keysOf(m proto.Message) []indexKey {
	if t.rules.index == nil {
		return nil
	}
	if t.room.addKey == nil {
		t.room.addKey = func(index int, key string) { t.room.keys = append(t.room.keys, indexKey{index, key}) }
	}
	clear(t.room.keys)
	t.room.keys = t.room.keys[:0]
	t.rules.index(m, t.room.addKey)
	return t.room.keys
}
