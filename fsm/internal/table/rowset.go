package table

import (
	"iter"
	"slices"
	"sort"
	"strings"

	"github.com/tidwall/btree"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// indexKey is a key in one of a table's indexes.
type indexKey struct {
	index int
	key   string
}

// entry is one row of an index. Several records may share an index key.
type entry struct {
	key string
	rec *Record
}

// indexing adds the index keys of a row.
type indexing[P any] func(m P, add func(index int, key string))

// rules is a schema without the type of its messages.
type rules struct {
	kind    internalv1.SnapshotRecord_Table
	fresh   func() proto.Message
	key     func(proto.Message) string
	indexes int
	index   indexing[proto.Message]
	facets  faceting[proto.Message]
	partial func() func(row string) proto.Message
	decoded bool
}

// Rowset is a table without the type of its messages. It holds all code that does not need
// the type: generic code is compiled again for each type, in each package that uses the
// state.
type Rowset struct {
	rules   rules
	cool    *cooling
	guard   *guard // may be nil
	rows    *btree.BTreeG[*Record]
	indexes []*btree.BTreeG[entry]
	facets  *btree.BTreeG[membership]
	mark    *Mark // replaced at every change
	roll    *Mark // replaced when a row is inserted or deleted
}

// Mark identifies the contents of a table: while the pointer is the same, so are the
// contents.
type Mark struct{ _ byte } // not empty: all empty values may have the same address

func newRowset(r rules) *Rowset {
	opts := btree.Options{NoLocks: true}
	t := &Rowset{rules: r, cool: &cooling{}, facets: newFacets(), mark: new(Mark), roll: new(Mark)}
	t.rows = btree.NewBTreeGOptions(func(a, b *Record) bool { return a.key < b.key }, opts)
	for range r.indexes {
		t.indexes = append(t.indexes, btree.NewBTreeGOptions(func(a, b entry) bool {
			if a.key != b.key {
				return a.key < b.key
			}
			return a.rec.key < b.rec.key
		}, opts))
	}
	if guarded {
		t.Guard()
	}
	return t
}

// copy returns a copy that later writes do not affect.
func (t *Rowset) copy() *Rowset {
	t.guard.sample()
	c := &Rowset{
		rules: t.rules, cool: t.cool, guard: t.guard, rows: t.rows.Copy(), facets: t.facets.Copy(), mark: t.mark, roll: t.roll,
	}
	for _, ix := range t.indexes {
		c.indexes = append(c.indexes, ix.Copy())
	}
	return c
}

// Name returns the table's name in lower case.
func (t *Rowset) Name() string { return strings.ToLower(t.rules.kind.String()) }

// Mark returns a value that changes whenever the table does.
func (t *Rowset) Mark() *Mark { return t.mark }

// Roll returns a value that changes whenever a row is inserted or deleted.
func (t *Rowset) Roll() *Mark { return t.roll }

// Row returns the row under a key.
func (t *Rowset) Row(key string) (*Record, bool) { return t.rows.Get(&Record{key: key}) }

// Facet returns the value of a row under the path of a facet.
func (r *Record) Facet(path string) (value string, ok bool) {
	for _, f := range r.facets {
		if f.path == path {
			return f.value, true
		}
	}
	return "", false
}

// Len returns the number of rows.
func (t *Rowset) Len() int { return t.rows.Len() }

// Has reports whether there is a row under a key.
func (t *Rowset) Has(key string) bool {
	_, ok := t.rows.Get(&Record{key: key})
	return ok
}

// write inserts or replaces the row of m, which nobody may change any more.
func (t *Rowset) write(m proto.Message) {
	t.mark = new(Mark)
	r := newRecord(t.rules.key(m), m)
	r.index = t.keysOf(m)
	t.guard.store(r, m)
	old, replaced := t.rows.Set(r)
	if replaced {
		t.guard.drop(old)
		r.key = old.key // share the string that the indexes hold
		t.unindex(old, r)
	} else {
		t.roll = new(Mark)
	}
	if t.rules.facets != nil {
		r.facets = t.facetsOf(m, old)
		t.refacet(r, old)
	}
	for _, k := range r.index {
		// This replaces the old record if it has the same key.
		t.indexes[k.index].Set(entry{key: k.key, rec: r})
	}
}

// keysOf returns the index keys of a row.
func (t *Rowset) keysOf(m proto.Message) []indexKey {
	if t.rules.index == nil {
		return nil
	}
	var room [8]indexKey
	keys := room[:0]
	t.rules.index(m, func(index int, key string) { keys = append(keys, indexKey{index, key}) })
	return slices.Clone(keys)
}

// Delete removes the row under a key, if there is one.
func (t *Rowset) Delete(key string) {
	if old, ok := t.rows.Delete(&Record{key: key}); ok {
		t.guard.drop(old)
		t.mark, t.roll = new(Mark), new(Mark)
		t.unindex(old, &Record{})
		t.refacet(&Record{key: key}, old)
	}
}

// unindex removes a record from the indexes, except for keys that the next record has too.
// Most changes of a record change no index.
func (t *Rowset) unindex(old, next *Record) {
	for _, k := range old.index {
		if !slices.Contains(next.index, k) {
			t.indexes[k.index].Delete(entry{key: k.key, rec: old})
		}
	}
}

// each calls f for every row, encoded, by key, until f returns an error.
func (t *Rowset) each(f func(kind internalv1.SnapshotRecord_Table, key string, value []byte) error) error {
	var err error
	t.rows.Scan(func(r *Record) bool {
		err = f(t.rules.kind, r.key, t.encoded(r))
		return err == nil
	})
	return err
}

// Keys returns the keys of all rows, in order.
func (t *Rowset) Keys() iter.Seq[string] {
	return func(yield func(string) bool) {
		t.rows.Scan(func(r *Record) bool { return yield(r.key) })
	}
}

// rowsFrom visits the rows with the prefix and a key > after, by key.
func (t *Rowset) rowsFrom(prefix, after string, visit func(*Record) bool) {
	t.rows.Ascend(&Record{key: max(prefix, after)}, func(r *Record) bool {
		if !strings.HasPrefix(r.key, prefix) {
			return false
		}
		return r.key == after || visit(r)
	})
}

// rowsBack visits the rows with the prefix and a key < before, last first.
func (t *Rowset) rowsBack(prefix, before string, visit func(*Record) bool) {
	t.rows.Descend(&Record{key: before}, func(r *Record) bool {
		if r.key >= before {
			return true
		}
		return strings.HasPrefix(r.key, prefix) && visit(r)
	})
}

// scanRows visits the rows whose index key has the prefix and is above after, by index key.
func (t *Rowset) scanRows(index int, prefix, after string, visit func(string, *Record) bool) {
	t.indexes[index].Ascend(entry{key: max(prefix, after), rec: &Record{}}, func(e entry) bool {
		if !strings.HasPrefix(e.key, prefix) {
			return false
		}
		return (after != "" && e.key == after) || visit(e.key, e.rec)
	})
}

// scanRowsBack visits the rows whose index key has the prefix and is below before, last
// first. An empty before starts at the end.
func (t *Rowset) scanRowsBack(index int, prefix, before string, visit func(string, *Record) bool) {
	if before == "" {
		before = prefix + "\xff"
	}
	t.indexes[index].Descend(entry{key: before, rec: &Record{}}, func(e entry) bool {
		if e.key >= before {
			return true
		}
		return strings.HasPrefix(e.key, prefix) && visit(e.key, e.rec)
	})
}

// Last returns the highest key that has the prefix and is below before.
func (t *Rowset) Last(prefix, before string) (key string, ok bool) {
	t.rows.Descend(&Record{key: before}, func(r *Record) bool {
		if r.key >= before {
			return true
		}
		key, ok = r.key, strings.HasPrefix(r.key, prefix)
		return false
	})
	return key, ok
}

// Indexed reports whether a row has a key in an index, without reading the row.
func (t *Rowset) Indexed(index int, key, row string) bool {
	_, ok := t.indexes[index].Get(entry{key: key, rec: &Record{key: row}})
	return ok
}

// Count returns how many entries of an index have a key below before. It searches and does
// not iterate.
func (t *Rowset) Count(index int, before string) int {
	ix := t.indexes[index]
	return sort.Search(ix.Len(), func(i int) bool {
		e, _ := ix.GetAt(i)
		return e.key >= before
	})
}
