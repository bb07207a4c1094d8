package table

import (
	"cmp"
	"slices"
	"strings"

	"github.com/tidwall/btree"
	"google.golang.org/protobuf/proto"
)

// Filters find rows by facets: a facet is a path and a value, such as spec.rack and r7. Many
// rows share a facet, and a row has several, so memory matters. A facet's text is stored once
// for all rows, and a row's key once for all its facets. Facets are derived from rows, so
// snapshots do not contain them.

// facet is a path and the value under it. It is immutable.
type facet struct{ path, value string }

// is reports whether f has the path prefix+name and the value.
func (f *facet) is(prefix, name, value string) bool {
	return f.value == value && len(f.path) == len(prefix)+len(name) && f.path[:len(prefix)] == prefix &&
		f.path[len(prefix):] == name
}

func (f *facet) compare(o *facet) int {
	if f == o {
		return 0
	}
	return cmp.Or(strings.Compare(f.path, o.path), strings.Compare(f.value, o.value))
}

// membership records that a row has a facet.
type membership struct {
	facet *facet
	row   string
}

func (m membership) less(o membership) bool {
	if c := m.facet.compare(o.facet); c != 0 {
		return c < 0
	}
	return m.row < o.row
}

// faceting visits the facets of a row. The path comes in two parts, so that most need no
// allocation. A facet may be visited twice.
type faceting[P any] func(m P, visit func(prefix, name, value string))

func newFacets() *btree.BTreeG[membership] {
	return btree.NewBTreeGOptions(membership.less, btree.Options{NoLocks: true})
}

// facetsOf returns the facets of a row that replaces old, which may be nil. It reuses the
// facets of old.
func (t *Rowset) facetsOf(m proto.Message, old *Record) []*facet {
	if t.scratch.addFacet == nil {
		t.scratch.addFacet = func(prefix, name, value string) {
			t.scratch.facets = append(t.scratch.facets, facetParts{prefix, name, value})
		}
	}
	clear(t.scratch.facets)
	t.scratch.facets = t.scratch.facets[:0]
	t.rules.facets(m, t.scratch.addFacet)
	var had []*facet
	if old != nil {
		had = old.facets
	}
	known := lookupIn(had)
	if old != nil && sameFacets(t.scratch.facets, known) {
		return had
	}
	has := make([]*facet, len(t.scratch.facets))
	for i, p := range t.scratch.facets {
		if has[i] = known.equal(p); has[i] == nil {
			has[i] = t.known(p)
		}
	}
	return has
}

// maxKnown bounds the facets that a table remembers between writes.
const maxKnown = 1024

// known returns the facet that other rows use, or a new one.
func (t *Rowset) known(p facetParts) *facet {
	if f := t.scratch.known[p]; f != nil {
		return f
	}
	if t.scratch.known == nil || len(t.scratch.known) == maxKnown {
		t.scratch.known = map[facetParts]*facet{}
	}
	f := t.intern(&facet{p.prefix + p.name, p.value})
	t.scratch.known[facetParts{p.prefix, f.path[len(p.prefix):], f.value}] = f // shares its texts
	return f
}

// facetParts is a facet as it is visited.
type facetParts struct{ prefix, name, value string }

// among returns the equal facet in a list, or nil.
func (p facetParts) among(all []*facet) *facet {
	for _, f := range all {
		if f.is(p.prefix, p.name, p.value) {
			return f
		}
	}
	return nil
}

// fewFacets is the number of facets up to which a scan is faster than a map.
const fewFacets = 32

// lookup finds the facets of a list.
type lookup struct {
	all    []*facet
	byText map[facet]*facet    // of a long list
	set    map[*facet]struct{} // of a long list
}

func lookupIn(all []*facet) lookup {
	l := lookup{all: all}
	if len(all) > fewFacets {
		l.byText, l.set = make(map[facet]*facet, len(all)), make(map[*facet]struct{}, len(all))
		for _, f := range all {
			l.byText[*f], l.set[f] = f, struct{}{}
		}
	}
	return l
}

// equal returns the equal facet, or nil.
func (l lookup) equal(p facetParts) *facet {
	if l.byText == nil {
		return p.among(l.all)
	}
	return l.byText[facet{p.prefix + p.name, p.value}]
}

func (l lookup) has(f *facet) bool {
	if l.set == nil {
		return slices.Contains(l.all, f)
	}
	_, ok := l.set[f]
	return ok
}

// sameFacets reports whether a row has exactly the facets in had. Most changes of a row
// change none.
func sameFacets(has []facetParts, had lookup) bool {
	if len(has) != len(had.all) {
		return false
	}
	for _, p := range has {
		if had.equal(p) == nil {
			return false
		}
	}
	return true
}

// intern returns the equal facet that other rows use, or f if there is none.
func (t *Rowset) intern(f *facet) *facet {
	known := f
	t.facets.Ascend(membership{facet: f}, func(m membership) bool {
		if m.facet.compare(f) == 0 {
			known = m.facet
		}
		return false
	})
	return known
}

// refacet updates the memberships of a row. old may be nil.
func (t *Rowset) refacet(r row, old *Record) {
	var had []*facet
	if old != nil {
		had = old.facets
	}
	if len(had) > 0 && len(r.facets) > 0 && &had[0] == &r.facets[0] {
		return // the same slice
	}
	keeps, kept := lookupIn(r.facets), lookupIn(had)
	for _, f := range had {
		if !keeps.has(f) {
			t.facets.Delete(membership{f, r.key})
		}
	}
	for _, f := range r.facets {
		if !kept.has(f) {
			t.facets.Set(membership{f, r.key})
		}
	}
}
