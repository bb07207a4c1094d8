package table

import (
	"iter"
	"strings"
)

// FacetPrefix returns the rows with a value under a path that begins with a prefix, by value.
func (t *Table[P]) FacetPrefix(path, prefix string) iter.Seq[P] {
	return func(yield func(P) bool) {
		t.facets.Ascend(membership{facet: &facet{path, prefix}}, func(m membership) bool {
			if m.facet.path != path || !strings.HasPrefix(m.facet.value, prefix) {
				return false
			}
			r, ok := t.find(m.row)
			return !ok || yield(t.of(r))
		})
	}
}
