package fsm

import (
	"cmp"
	"slices"
	"strings"

	"github.com/tidwall/btree"
	"google.golang.org/protobuf/proto"
)

// Facets are what filters find rows by: a path and a value that a row has under it, such as
// spec.rack and r7. Many rows share one, and a row has several, so what is kept of them has to be
// small: the text is held once for all rows, the key once for all facets of a row. They are made of
// the rows, so snapshots do not have them.

// facet is one of them. It never changes.
type facet struct{ path, value string }

// is reports whether it is the facet of a path in two parts and a value.
func (f *facet) is(prefix, name, value string) bool { return f.value == value && f.path == prefix+name }

func (f *facet) compare(o *facet) int {
	if f == o {
		return 0
	}
	return cmp.Or(strings.Compare(f.path, o.path), strings.Compare(f.value, o.value))
}

// membership means that a row has a facet.
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

// faceting visits the facets of a row: the path in two parts, so that no text has to be made for
// most, and the value. One may come twice.
type faceting[P any] func(m P, visit func(prefix, name, value string))

func newFacets() *btree.BTreeG[membership] {
	return btree.NewBTreeGOptions(membership.less, btree.Options{NoLocks: true})
}

// facetsOf returns the facets of a row that takes the place of an old one (nil: of none), and what
// was kept of that is kept again.
func (t *rowset) facetsOf(m proto.Message, old *record) []*facet {
	if old != nil && t.sameFacets(m, old.facets) {
		return old.facets
	}
	var had, has []*facet
	if old != nil {
		had = old.facets
	}
	has = make([]*facet, 0, len(had)+1)
	t.rules.facets(m, func(prefix, name, value string) {
		if i := slices.IndexFunc(had, func(f *facet) bool { return f.is(prefix, name, value) }); i >= 0 {
			has = append(has, had[i])
			return
		}
		has = append(has, t.intern(&facet{prefix + name, value}))
	})
	return slices.Clip(has)
}

// sameFacets reports whether a row has just these facets. Most changes of a row change none.
func (t *rowset) sameFacets(m proto.Message, had []*facet) bool {
	n, same := 0, true
	t.rules.facets(m, func(prefix, name, value string) {
		n++
		same = same && slices.ContainsFunc(had, func(f *facet) bool { return f.is(prefix, name, value) })
	})
	return same && n == len(had)
}

// intern returns the facet as other rows have it already, or else as it is.
func (t *rowset) intern(f *facet) *facet {
	known := f
	t.facets.Ascend(membership{facet: f}, func(m membership) bool {
		if m.facet.compare(f) == 0 {
			known = m.facet
		}
		return false
	})
	return known
}

// refacet brings the memberships of a row up to date. The old one may be nil.
func (t *rowset) refacet(r, old *record) {
	var had []*facet
	if old != nil {
		had = old.facets
	}
	if len(had) > 0 && len(r.facets) > 0 && &had[0] == &r.facets[0] {
		return // the very same
	}
	for _, f := range had {
		if !slices.Contains(r.facets, f) {
			t.facets.Delete(membership{f, r.key})
		}
	}
	for _, f := range r.facets {
		if !slices.Contains(had, f) {
			t.facets.Set(membership{f, r.key})
		}
	}
}
