package fsm

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/tidwall/btree"
	"google.golang.org/protobuf/proto"
)

// The rows of a snapshot come in the order of their keys, and all of a table at once. So they are
// decoded by several goroutines, and the trees are made of what is sorted: one row put in after the
// other takes three times as long. What comes out depends on the rows alone.

// incoming is a row on its way into a table.
type incoming struct {
	*record
	shared []*sharing // one for each of its facets
}

// sharing is a facet and the rows that have it.
type sharing struct {
	facet *facet
	rows  []*record
}

// intake takes the rows of a table.
type intake interface {
	// prepare decodes rows and checks them. Several goroutines may do so.
	prepare(rows []incoming) error
	// add takes rows that are prepared, in the order of the snapshot.
	add(rows []incoming) error
	// trees returns what is left to do when all rows are there, in any order or at once.
	trees() []func()
	len() int
}

// following says whether rows are in order, after the last one that came before.
type following struct {
	any  bool
	last string
}

func (f *following) next(t *rowset, rows []incoming) error {
	for _, r := range rows {
		if f.any && r.key <= f.last {
			return fmt.Errorf("snapshot is damaged: record %q of %s comes after %q", r.key, t.name(), f.last)
		}
		f.any, f.last = true, r.key
	}
	return nil
}

// filling is the intake of a table that is empty.
type filling struct {
	checking
	order following
	rows  []*record

	mu     sync.RWMutex
	known  map[[3]string]*sharing // by both parts of the path and the value
	shared []*sharing             // the same ones
}

// intake returns the intake of a table that is empty. If the rows are not to be kept, they are only
// checked and counted.
func (t *rowset) intake(keep bool) intake {
	c := checking{rowset: t, shape: shapeOf(t.rules.fresh().ProtoReflect().Descriptor())}
	if !keep {
		return &counting{checking: c}
	}
	return &filling{checking: c, known: map[[3]string]*sharing{}}
}

func (in *filling) len() int { return len(in.rows) }

func (in *filling) prepare(rows []incoming) error {
	var keys parts[indexKey]
	var shared parts[*sharing]
	addKey := func(index int, key string) { keys.all = append(keys.all, indexKey{index, key}) }
	addFacet := func(prefix, name, value string) {
		shared.all = append(shared.all, in.share([3]string{prefix, name, value}))
	}
	err := in.each(rows, func(m proto.Message) {
		if in.rules.index != nil {
			in.rules.index(m, addKey)
		}
		if in.rules.facets != nil {
			in.rules.facets(m, addFacet)
		}
		keys.end()
		shared.end()
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
		r.index, r.facets, rows[i].shared = keys.part(i), facets.part(i), shared.part(i)
	}
	return nil
}

// share returns a facet as it is kept, once for all rows.
func (in *filling) share(key [3]string) *sharing {
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
		s = &sharing{facet: &facet{key[0] + key[1], key[2]}}
		in.known[key] = s
		in.shared = append(in.shared, s)
	}
	return s
}

func (in *filling) add(rows []incoming) error {
	if err := in.order.next(in.rowset, rows); err != nil {
		return err
	}
	for _, r := range rows {
		in.rows = append(in.rows, r.record)
		for _, s := range r.shared {
			if n := len(s.rows); n == 0 || s.rows[n-1] != r.record { // a facet may come twice
				s.rows = append(s.rows, r.record)
			}
		}
	}
	return nil
}

func (in *filling) trees() []func() {
	all := []func(){func() {
		for _, r := range in.rows {
			in.rowset.rows.Load(r)
		}
		in.rowset.rows = packed(in.rowset.rows)
	}}
	for i := range in.rowset.indexes {
		all = append(all, func() { in.fillIndex(i) })
	}
	if in.rules.facets != nil {
		all = append(all, in.fillFacets)
	}
	return all
}

func (in *filling) fillIndex(i int) {
	n := 0
	for _, r := range in.rows {
		for _, k := range r.index {
			if k.index == i {
				n++
			}
		}
	}
	entries := make([]entry, 0, n)
	for _, r := range in.rows {
		for _, k := range r.index {
			if k.index == i {
				entries = append(entries, entry{key: k.key, rec: r})
			}
		}
	}
	slices.SortFunc(entries, func(a, b entry) int {
		if c := strings.Compare(a.key, b.key); c != 0 {
			return c
		}
		return strings.Compare(a.rec.key, b.rec.key)
	})
	for _, e := range entries {
		in.rowset.indexes[i].Load(e)
	}
	in.rowset.indexes[i] = packed(in.rowset.indexes[i])
}

func (in *filling) fillFacets() {
	slices.SortFunc(in.shared, func(a, b *sharing) int { return a.facet.compare(b.facet) })
	for _, s := range in.shared {
		for _, r := range s.rows {
			in.rowset.facets.Load(membership{s.facet, r.key})
		}
		s.rows = nil // they are many
	}
	in.rowset.facets = packed(in.rowset.facets)
}

// packed returns a tree whose nodes have no more room than they need: those of one that was loaded
// in order are half empty, and a node is made anew when a copy of its tree is written to.
func packed[T any](tree *btree.BTreeG[T]) *btree.BTreeG[T] {
	if tree.Len() == 0 {
		return tree
	}
	c := tree.Copy()
	c.ScanMut(func(T) bool { return true })
	return c
}

// checking is what all intakes do: no row comes in that does not decode, or is under another key
// than its own.
type checking struct {
	*rowset
	shape *shape
}

// each checks rows, and has them seen with what is read of them, which is good until the next one.
func (in *checking) each(rows []incoming, see func(proto.Message)) error {
	read := in.reader()
	for i := range rows {
		if i%yieldRows == 0 {
			runtime.Gosched()
		}
		r := &rows[i]
		m, err := read(r.record)
		if err != nil {
			return fmt.Errorf("decode record %q of %v: %w", r.key, in.rules.kind, err)
		}
		if want := in.rules.key(m); want != r.key {
			return fmt.Errorf("record of %v is under %q, want %q", in.rules.kind, r.key, want)
		}
		see(m)
	}
	return nil
}

// reader returns what reads rows: a glance at those that decode, where the table has one.
func (in *checking) reader() func(*record) (proto.Message, error) {
	decode := func(r *record) (proto.Message, error) {
		m := in.rules.fresh()
		return m, proto.Unmarshal(r.value, m)
	}
	if in.rules.glance == nil {
		return decode
	}
	glance := in.rules.glance()
	return func(r *record) (proto.Message, error) {
		if !in.shape.fits(r.value) {
			return decode(r) // says what is wrong
		}
		return glance(textOf(r.value)), nil
	}
}

// counting is the intake of who only wants to know that all rows are as they should be.
type counting struct {
	checking
	order following
	n     int
}

func (in *counting) len() int { return in.n }

func (in *counting) prepare(rows []incoming) error {
	return in.each(rows, func(proto.Message) {})
}

func (in *counting) add(rows []incoming) error {
	in.n += len(rows)
	return in.order.next(in.rowset, rows)
}

func (in *counting) trees() []func() { return nil }
