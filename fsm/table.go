package fsm

import (
	"fmt"
	"iter"
	"slices"
	"sort"
	"strings"

	"github.com/tidwall/btree"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// record is one encoded row. It never changes once it is in a table.
type record struct {
	key    string
	value  []byte
	index  []indexKey // those it has in the table's indexes
	facets []*facet
}

// indexKey is a key in one of a table's indexes.
type indexKey struct {
	index int
	key   string
}

// entry is one row of an index: several records may share an index key.
type entry struct {
	key string
	rec *record
}

// message is what a table holds: a pointer to a generated message type.
type message[M any] interface {
	*M
	proto.Message
}

// schema says how a table's rows are keyed and indexed.
type schema[M any, P message[M]] struct {
	kind    internalv1.SnapshotRecord_Table
	key     func(P) string
	indexes int
	index   indexing[P] // may be nil when there are no indexes
	facets  faceting[P] // may be nil

	// glance makes what reads of an encoded row all that the three above look at, into the same message each time. Nil: rows are decoded.
	glance func() func(row string) P
}

// indexing adds the keys that a row has in indexes.
type indexing[P any] func(m P, add func(index int, key string))

// table is a typed table with an O(1) copy. Reads decode: the caller owns what it gets.
type table[M any, P message[M]] struct {
	*schema[M, P]
	rows    *btree.BTreeG[*record]
	indexes []*btree.BTreeG[entry]
	facets  *btree.BTreeG[membership]
	mark    *mark // another one after each change
	roll    *mark // another one when a row has come or gone
}

// mark tells the contents of a table from others: as long as it is the same one, they are.
type mark struct{ _ byte } // of a size: all that have none may be at one address

func newTable[M any, P message[M]](s *schema[M, P]) *table[M, P] {
	opts := btree.Options{NoLocks: true}
	t := &table[M, P]{schema: s, facets: newFacets(), mark: new(mark), roll: new(mark)}
	t.rows = btree.NewBTreeGOptions(func(a, b *record) bool { return a.key < b.key }, opts)
	for range s.indexes {
		t.indexes = append(t.indexes, btree.NewBTreeGOptions(func(a, b entry) bool {
			if a.key != b.key {
				return a.key < b.key
			}
			return a.rec.key < b.rec.key
		}, opts))
	}
	return t
}

// freeze gives an earlier copy if nothing has changed since, or else another one. It is not to be written to.
func (t *table[M, P]) freeze(since *table[M, P]) *table[M, P] {
	if since != nil && since.mark == t.mark {
		return since
	}
	return t.copy()
}

// copy gives one that later writes do not touch.
func (t *table[M, P]) copy() *table[M, P] {
	c := &table[M, P]{schema: t.schema, rows: t.rows.Copy(), facets: t.facets.Copy(), mark: t.mark, roll: t.roll}
	for _, ix := range t.indexes {
		c.indexes = append(c.indexes, ix.Copy())
	}
	return c
}

func (t *table[M, P]) len() int { return t.rows.Len() }

func (t *table[M, P]) get(key string) (P, bool) {
	r, ok := t.rows.Get(&record{key: key})
	if !ok {
		return nil, false
	}
	return t.decode(r), true
}

func (t *table[M, P]) has(key string) bool {
	_, ok := t.rows.Get(&record{key: key})
	return ok
}

// decode panics on bytes that do not decode: only put and an intake write records, and that checks them.
func (t *table[M, P]) decode(r *record) P {
	m := P(new(M))
	if err := proto.Unmarshal(r.value, m); err != nil {
		panic(fmt.Sprintf("decode record %q of %v: %v", r.key, t.kind, err))
	}
	return m
}

// put inserts or replaces the row of a message.
func (t *table[M, P]) put(m P) {
	value, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil { // only a string that is not UTF-8 can do this, and the edge refuses those
		panic(fmt.Sprintf("encode record of %v: %v", t.kind, err))
	}
	t.insert(t.key(m), value, m)
}

func (t *table[M, P]) insert(key string, value []byte, m P) {
	t.mark = new(mark)
	r := &record{key: key, value: value, index: t.keysOf(m)}
	old, replaced := t.rows.Set(r)
	if replaced {
		r.key = old.key // the indexes hold that one: none of its copies is to stay
		t.unindex(old, r)
	} else {
		t.roll = new(mark)
	}
	if t.schema.facets != nil {
		r.facets = t.facetsOf(m, old)
		t.refacet(r, old)
	}
	for _, k := range r.index {
		t.indexes[k.index].Set(entry{key: k.key, rec: r}) // in the place of the old record's, where it has the same key
	}
}

// keysOf gives the keys of a row in the indexes.
func (t *table[M, P]) keysOf(m P) []indexKey {
	if t.index == nil {
		return nil
	}
	var room [8]indexKey
	keys := room[:0]
	t.index(m, func(index int, key string) { keys = append(keys, indexKey{index, key}) })
	return slices.Clone(keys)
}

func (t *table[M, P]) delete(key string) {
	if old, ok := t.rows.Delete(&record{key: key}); ok {
		t.mark, t.roll = new(mark), new(mark)
		t.unindex(old, &record{})
		t.refacet(&record{key: key}, old)
	}
}

// unindex removes a record from the indexes, but for the keys that the next one has too: most changes
// of a record change no index.
func (t *table[M, P]) unindex(old, next *record) {
	for _, k := range old.index {
		if !slices.Contains(next.index, k) {
			t.indexes[k.index].Delete(entry{key: k.key, rec: old})
		}
	}
}

// each calls f for every encoded row, by key, until f fails.
func (t *table[M, P]) each(f func(kind internalv1.SnapshotRecord_Table, key string, value []byte) error) error {
	var err error
	t.rows.Scan(func(r *record) bool {
		err = f(t.kind, r.key, r.value)
		return err == nil
	})
	return err
}

// ascend gives the rows with key > after that start with prefix, by key.
func (t *table[M, P]) ascend(prefix, after string) iter.Seq[P] {
	return func(yield func(P) bool) {
		t.rows.Ascend(&record{key: max(prefix, after)}, func(r *record) bool {
			if !strings.HasPrefix(r.key, prefix) {
				return false
			}
			return r.key == after || yield(t.decode(r))
		})
	}
}

// keys gives the keys of all rows, in order.
func (t *table[M, P]) keys() iter.Seq[string] {
	return func(yield func(string) bool) {
		t.rows.Scan(func(r *record) bool { return yield(r.key) })
	}
}

// descend gives the rows with key < before that start with prefix, by key, last first.
func (t *table[M, P]) descend(prefix, before string) iter.Seq[P] {
	return func(yield func(P) bool) {
		t.rows.Descend(&record{key: before}, func(r *record) bool {
			if r.key >= before {
				return true
			}
			return strings.HasPrefix(r.key, prefix) && yield(t.decode(r))
		})
	}
}

// lookup gives the row that an index has under exactly key.
func (t *table[M, P]) lookup(index int, key string) (P, bool) {
	for k, m := range t.scan(index, key, "") {
		if k == key {
			return m, true
		}
		break // a longer one
	}
	return nil, false
}

// scan gives the rows whose index key starts with prefix and is above after, by index key.
func (t *table[M, P]) scan(index int, prefix, after string) iter.Seq2[string, P] {
	return func(yield func(string, P) bool) {
		t.indexes[index].Ascend(entry{key: max(prefix, after), rec: &record{}}, func(e entry) bool {
			if !strings.HasPrefix(e.key, prefix) {
				return false
			}
			return (after != "" && e.key == after) || yield(e.key, t.decode(e.rec))
		})
	}
}

// last gives the key of the row with the highest key that starts with prefix and is below before.
func (t *table[M, P]) last(prefix, before string) (key string, ok bool) {
	t.rows.Descend(&record{key: before}, func(r *record) bool {
		if r.key >= before {
			return true
		}
		key, ok = r.key, strings.HasPrefix(r.key, prefix)
		return false
	})
	return key, ok
}

// indexed says whether a row has a key in an index, without reading it.
func (t *table[M, P]) indexed(index int, key, row string) bool {
	_, ok := t.indexes[index].Get(entry{key: key, rec: &record{key: row}})
	return ok
}

// scanBack gives the rows whose index key starts with prefix and is below before, last first.
// An empty before starts at the end.
func (t *table[M, P]) scanBack(index int, prefix, before string) iter.Seq2[string, P] {
	if before == "" {
		before = prefix + "\xff"
	}
	return func(yield func(string, P) bool) {
		t.indexes[index].Descend(entry{key: before, rec: &record{}}, func(e entry) bool {
			if e.key >= before {
				return true
			}
			return strings.HasPrefix(e.key, prefix) && yield(e.key, t.decode(e.rec))
		})
	}
}

// count counts the entries of an index whose key is below before, without a walk over them.
func (t *table[M, P]) count(index int, before string) int {
	ix := t.indexes[index]
	return sort.Search(ix.Len(), func(i int) bool {
		e, _ := ix.GetAt(i)
		return e.key >= before
	})
}
