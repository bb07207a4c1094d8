package table

import (
	"iter"
	"slices"
	"strings"
	"sync"

	"github.com/tidwall/btree"
	"google.golang.org/protobuf/proto"
)

// The rows of a snapshot arrive table by table, in key order. Several goroutines decode them,
// and the trees are built from sorted rows: inserting one row at a time takes three times as
// long. The result depends on the rows alone.

// incoming is a row to be loaded into a table.
type incoming struct {
	row
	index  []indexKey
	shared []*facetRows // one for each of its facets
}

// facetRows is a facet and the rows that have it.
type facetRows struct {
	facet *facet
	rows  []string // their keys
}

// bulkLoader loads or checks the rows of a table.
type bulkLoader interface {
	// prepare decodes and checks rows. It is safe for concurrent use.
	prepare(rows []incoming) error
	// add adds prepared rows, in the order of the snapshot.
	add(rows []incoming) error
	// trees returns functions that build the trees after the last row. They may run in any
	// order or concurrently.
	trees() []func()
	len() int
}

// tableLoader is the loader of an empty table.
type tableLoader struct {
	rowCheck
	Rowset  *Rowset
	order   keyOrder
	batches [][]incoming

	mu     sync.RWMutex
	known  map[[3]string]*facetRows // by both parts of the path and the value
	shared []*facetRows             // the values of known
}

// newLoader returns the loader of an empty table. If keep is false, rows are only checked and
// counted.
func (t *Rowset) newLoader(keep bool) bulkLoader {
	c := newRowCheck(t.rules)
	if !keep {
		return &verifier{rowCheck: c, table: t.Name()}
	}
	return &tableLoader{rowCheck: c, Rowset: t, known: map[[3]string]*facetRows{}}
}

func (in *tableLoader) len() (n int) {
	for range in.all() {
		n++
	}
	return n
}

// all returns the rows in the order of the snapshot.
func (in *tableLoader) all() iter.Seq[*incoming] {
	return func(yield func(*incoming) bool) {
		for _, b := range in.batches {
			for i := range b {
				if !yield(&b[i]) {
					return
				}
			}
		}
	}
}

func (in *tableLoader) prepare(rows []incoming) error {
	var keys parts[indexKey]
	var shared parts[*facetRows]
	addKey := func(index int, key string) {
		if own := rows[len(keys.ends)].key; key == own {
			key = own // a part of the row's bytes would keep its page in memory
		}
		keys.all = append(keys.all, indexKey{index, key})
	}
	last := 0 // where the facets of the last row begin
	addFacet := func(prefix, name, value string) {
		s := sharedAmong(shared.all[last:], prefix, name, value)
		if s == nil {
			s = in.share([3]string{prefix, name, value})
		}
		shared.all = append(shared.all, s)
	}
	err := in.each(rows, func(m proto.Message) {
		if in.rules.index != nil {
			in.rules.index(m, addKey)
		}
		if in.rules.facets != nil {
			in.rules.facets(m, addFacet)
		}
		keys.end()
		last = shared.end()
	})
	if err != nil {
		return err
	}
	keys.pack()
	facets := parts[*facet]{ends: shared.ends, all: make([]*facet, len(shared.all))}
	for i, s := range shared.all {
		facets.all[i] = s.facet
	}
	for i, r := range rows {
		r.facets, rows[i].index, rows[i].shared = facets.part(i), keys.part(i), shared.part(i)
	}
	return nil
}

// sharedAmong returns the entry of a facet in a list, or nil. Rows in sequence are often alike.
func sharedAmong(all []*facetRows, prefix, name, value string) *facetRows {
	for _, s := range all {
		if s.facet.is(prefix, name, value) {
			return s
		}
	}
	return nil
}

// share returns the shared entry of a facet, one for all rows.
func (in *tableLoader) share(key [3]string) *facetRows {
	in.mu.RLock()
	s := in.known[key]
	in.mu.RUnlock()
	if s != nil {
		return s
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	if s = in.known[key]; s == nil {
		key[1], key[2] = strings.Clone(key[1]), strings.Clone(key[2]) // they may be parts of the row
		s = &facetRows{facet: &facet{key[0] + key[1], key[2]}}
		in.known[key] = s
		in.shared = append(in.shared, s)
	}
	return s
}

func (in *tableLoader) add(rows []incoming) error {
	if err := in.order.next(in.Rowset.Name(), rows); err != nil {
		return err
	}
	in.batches = append(in.batches, rows)
	for _, r := range rows {
		for _, s := range r.shared {
			if n := len(s.rows); n == 0 || s.rows[n-1] != r.key { // a facet may be visited twice
				s.rows = append(s.rows, r.key)
			}
		}
	}
	return nil
}

func (in *tableLoader) trees() []func() {
	all := []func(){func() {
		for r := range in.all() {
			in.Rowset.rows.Load(r.row)
		}
		in.Rowset.rows = packed(in.Rowset.rows)
	}}
	for i := range in.Rowset.indexes {
		all = append(all, func() { in.fillIndex(i) })
	}
	if in.rules.facets != nil {
		all = append(all, in.fillFacets)
	}
	return all
}

func (in *tableLoader) fillIndex(i int) {
	n := 0
	for r := range in.all() {
		for _, k := range r.index {
			if k.index == i {
				n++
			}
		}
	}
	entries := make([]entry, 0, n)
	for r := range in.all() {
		for _, k := range r.index {
			if k.index == i {
				entries = append(entries, entry{k.key, r.key})
			}
		}
	}
	slices.SortFunc(entries, func(a, b entry) int {
		if c := strings.Compare(a.key, b.key); c != 0 {
			return c
		}
		return strings.Compare(a.row, b.row)
	})
	for _, e := range entries {
		in.Rowset.indexes[i].Load(e)
	}
	in.Rowset.indexes[i] = packed(in.Rowset.indexes[i])
}

func (in *tableLoader) fillFacets() {
	slices.SortFunc(in.shared, func(a, b *facetRows) int { return a.facet.compare(b.facet) })
	for _, s := range in.shared {
		for _, key := range s.rows {
			in.Rowset.facets.Load(membership{s.facet, key})
		}
		s.rows = nil // frees memory
	}
	in.Rowset.facets = packed(in.Rowset.facets)
}

// packed returns a tree without spare capacity. Loading a tree in order leaves its nodes half
// empty, and writing to a copy of a tree allocates its nodes again.
func packed[T any](tree *btree.BTreeG[T]) *btree.BTreeG[T] {
	if tree.Len() == 0 {
		return tree
	}
	c := tree.Copy()
	c.ScanMut(func(T) bool { return true })
	return c
}
