package table

import (
	"iter"
	"sort"
	"strings"
)

// find returns the row under a key.
func (t *Rowset) find(key string) (row, bool) { return t.rows.Get(row{key: key}) }

// Row returns the record under a key.
func (t *Rowset) Row(key string) (*Record, bool) {
	r, ok := t.find(key)
	return r.Record, ok
}

// Len returns the number of rows.
func (t *Rowset) Len() int { return t.rows.Len() }

// Has reports whether there is a row under a key.
func (t *Rowset) Has(key string) bool {
	_, ok := t.find(key)
	return ok
}

// Keys returns the keys of all rows, in order.
func (t *Rowset) Keys() iter.Seq[string] {
	return func(yield func(string) bool) {
		t.rows.Scan(func(r row) bool { return yield(r.key) })
	}
}

// rowsFrom visits the rows with the prefix and a key > after, by key.
func (t *Rowset) rowsFrom(prefix, after string, visit func(row) bool) {
	t.rows.Ascend(row{key: max(prefix, after)}, func(r row) bool {
		if !strings.HasPrefix(r.key, prefix) {
			return false
		}
		return r.key == after || visit(r)
	})
}

// rowsBack visits the rows with the prefix and a key < before, last first.
func (t *Rowset) rowsBack(prefix, before string, visit func(row) bool) {
	t.rows.Descend(row{key: before}, func(r row) bool {
		if r.key >= before {
			return true
		}
		return strings.HasPrefix(r.key, prefix) && visit(r)
	})
}

// scanRows visits the rows whose index key has the prefix and is above after, by index key.
func (t *Rowset) scanRows(index int, prefix, after string, visit func(string, row) bool) {
	t.indexes[index].Ascend(entry{key: max(prefix, after)}, func(e entry) bool {
		if !strings.HasPrefix(e.key, prefix) {
			return false
		}
		return (after != "" && e.key == after) || t.visitEntry(e, visit)
	})
}

// scanRowsBack visits the rows whose index key has the prefix and is below before, last
// first. An empty before starts at the end.
func (t *Rowset) scanRowsBack(index int, prefix, before string, visit func(string, row) bool) {
	if before == "" {
		before = prefix + "\xff"
	}
	t.indexes[index].Descend(entry{key: before}, func(e entry) bool {
		if e.key >= before {
			return true
		}
		return strings.HasPrefix(e.key, prefix) && t.visitEntry(e, visit)
	})
}

func (t *Rowset) visitEntry(e entry, visit func(string, row) bool) bool {
	r, _ := t.find(e.row) // each entry has its row
	return visit(e.key, r)
}

// Last returns the highest key that has the prefix and is below before.
func (t *Rowset) Last(prefix, before string) (key string, ok bool) {
	t.rows.Descend(row{key: before}, func(r row) bool {
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
	_, ok := t.indexes[index].Get(entry{key, row})
	return ok
}

// IsLast reports whether a row has the highest key of an index, and returns the number of
// entries of the index.
func (t *Rowset) IsLast(index int, row string) (entries int, last bool) {
	e, ok := t.indexes[index].Max()
	return t.indexes[index].Len(), ok && e.row == row
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

// CountPrefix returns how many entries of an index have a key with the prefix. Like Count, it does
// not iterate.
func (t *Rowset) CountPrefix(index int, prefix string) int {
	return t.Count(index, prefix+"\xff") - t.Count(index, prefix)
}

// Values returns the rows of a scan without their keys.
func Values[P any](scan iter.Seq2[string, P]) iter.Seq[P] {
	return func(yield func(P) bool) {
		for _, m := range scan {
			if !yield(m) {
				return
			}
		}
	}
}

// Map returns the values of f for rows.
func Map[P, Q any](rows iter.Seq[P], f func(P) Q) iter.Seq[Q] {
	return func(yield func(Q) bool) {
		for m := range rows {
			if !yield(f(m)) {
				return
			}
		}
	}
}
