package table

import (
	"strings"

	"github.com/tidwall/btree"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// row is a record under its key.
type row struct {
	key string
	*Record
}

// rules is a schema without the type of its messages.
type rules struct {
	kind    internalv1.SnapshotRecord_Table
	fresh   func() proto.Message
	key     func(proto.Message) string
	indexes int
	index   indexing[proto.Message]
	same    func(a, b proto.Message) bool
	facets  faceting[proto.Message]
	partial func() partialDecoder
	decoded bool
}

// Rowset is a table without the type of its messages. It holds all code that does not need
// the type: generic code is compiled again for each type, in each package that uses the
// state.
type Rowset struct {
	rules   rules
	guard   *guard // may be nil
	rows    *btree.BTreeG[row]
	indexes []*btree.BTreeG[entry]
	facets  *btree.BTreeG[membership]
	mark    mark    // of the contents
	roll    mark    // of the keys of the rows
	scratch scratch // of writes
}

func newRowset(r rules) *Rowset {
	opts := btree.Options{NoLocks: true}
	t := &Rowset{rules: r, facets: newFacets(), mark: newMark(), roll: newMark()}
	t.rows = btree.NewBTreeGOptions(func(a, b row) bool { return a.key < b.key }, opts)
	for range r.indexes {
		t.indexes = append(t.indexes, btree.NewBTreeGOptions(entry.less, opts))
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
		rules: t.rules, guard: t.guard, rows: t.rows.Copy(), facets: t.facets.Copy(),
		mark: t.mark.shared(), roll: t.roll.shared(),
	}
	for _, ix := range t.indexes {
		c.indexes = append(c.indexes, ix.Copy())
	}
	return c
}

// Name returns the table's name in lower case.
func (t *Rowset) Name() string { return strings.ToLower(t.rules.kind.String()) }

func (t *Rowset) kind() internalv1.SnapshotRecord_Table { return t.rules.kind }

// write inserts or replaces the row of m, which nobody may change any more.
func (t *Rowset) write(m proto.Message) {
	t.mark.change()
	r := row{t.rules.key(m), newRecord(m)}
	t.guard.store(r, m)
	old, replaced := t.rows.Set(r)
	if replaced {
		t.guard.drop(old)
		r.key = old.key // share the string that the indexes hold
	} else {
		t.roll.change()
	}
	if replaced {
		t.reindex(old, m)
	} else {
		t.index(r.key, m)
	}
	if t.rules.facets != nil {
		r.facets = t.facetsOf(m, old.Record)
		t.refacet(r, old.Record)
	}
}

// Delete removes the row under a key, if there is one.
func (t *Rowset) Delete(key string) {
	if old, ok := t.rows.Delete(row{key: key}); ok {
		t.guard.drop(old)
		t.mark.change()
		t.roll.change()
		t.reindex(old, nil)
		t.refacet(row{key, &Record{}}, old.Record)
	}
}
