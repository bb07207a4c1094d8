package table

import (
	"bytes"
	"iter"
	"slices"
	"strings"

	"github.com/tidwall/btree"
)

// Facets is a set of rows by their facets: rows with one value under a path, rows in all of
// several sets, or rows in any of them. Exactly one of the three is set. An empty Any has no
// rows.
type Facets struct {
	Path, Value string
	All, Any    []Facets
}

// cursor iterates over row keys in order.
type cursor interface {
	// seek returns the first key that is not below at.
	seek(at string) (string, bool)
}

// cursor returns a cursor over the keys of a set.
func (t *Rowset) cursor(s Facets) cursor {
	switch {
	case s.Path != "":
		return &having{t.facets, t.intern(&facet{s.Path, s.Value})}
	case len(s.All) > 0:
		return everyOf(t.cursors(s.All))
	}
	return anyOf(t.cursors(s.Any))
}

func (t *Rowset) cursors(sets []Facets) []cursor {
	var all []cursor
	for _, s := range sets {
		all = append(all, t.cursor(s))
	}
	return all
}

// having iterates over the rows with a facet.
type having struct {
	memberships *btree.BTreeG[membership]
	facet       *facet
}

func (h *having) seek(at string) (key string, ok bool) {
	h.memberships.Ascend(membership{h.facet, at}, func(m membership) bool {
		key, ok = m.row, m.facet.compare(h.facet) == 0
		return false
	})
	return key, ok
}

// everyOf iterates over the rows that all cursors return.
type everyOf []cursor

func (e everyOf) seek(at string) (string, bool) {
	for {
		from := at
		for _, c := range e {
			next, ok := c.seek(at)
			if !ok {
				return "", false
			}
			at = next
		}
		if at == from { // no cursor has moved
			return at, true
		}
	}
}

// anyOf iterates over the rows that at least one cursor returns.
type anyOf []cursor

func (a anyOf) seek(at string) (string, bool) {
	best, found := "", false
	for _, c := range a {
		if next, ok := c.seek(at); ok && (!found || next < best) {
			best, found = next, true
		}
	}
	return best, found
}

// Query narrows down the rows to check. It may include rows that do not match, and never
// excludes one that does.
type Query struct {
	// Facets of the row; nil selects all rows.
	Facets *Facets
	// Texts that the encoded record must contain, such as a serial number. A row without them
	// is not decoded.
	Texts []string
}

// findRows visits the rows with a key > after that q selects, by key.
func (t *Rowset) findRows(q Query, after string, visit func(row) bool) {
	texts := make([][]byte, len(q.Texts))
	for i, text := range q.Texts {
		texts[i] = []byte(text)
	}
	see := func(r row) bool { return !t.contains(r, texts) || visit(r) }
	if q.Facets == nil {
		t.rowsFrom("", after, see)
		return
	}
	t.having(t.cursor(*q.Facets), after, see)
}

// contains reports whether the bytes of a row contain all texts.
func (t *Rowset) contains(r row, texts [][]byte) bool {
	if len(texts) == 0 {
		return true
	}
	value := t.encoded(r)
	return !slices.ContainsFunc(texts, func(text []byte) bool { return !bytes.Contains(value, text) })
}

func (t *Rowset) having(c cursor, after string, visit func(row) bool) {
	for {
		key, ok := c.seek(after + "\x00") // the smallest key above after
		if !ok {
			return
		}
		after = key
		if r, ok := t.find(key); !ok || !visit(r) {
			return
		}
	}
}

// String returns the set as a readable expression.
func (s Facets) String() string {
	list := func(sets []Facets, joint string) string {
		var parts []string
		for _, s := range sets {
			parts = append(parts, s.String())
		}
		return "(" + strings.Join(parts, joint) + ")"
	}
	switch {
	case s.Path != "":
		return s.Path + "=" + s.Value
	case len(s.All) > 0:
		return list(s.All, " & ")
	}
	return list(s.Any, " | ")
}

// Tally counts rows by the facets that they have among some, each a path and a value. Bit i
// of an index of the result stands for facet i. It reads no row, so a million take some tens
// of milliseconds.
func (t *Rowset) Tally(facets ...Facets) []int {
	known := make([]*facet, len(facets))
	for i, f := range facets {
		known[i] = t.intern(&facet{f.Path, f.Value})
	}
	counts := make([]int, 1<<len(facets))
	t.rows.Scan(func(r row) bool {
		has := 0
		for _, f := range r.facets {
			for i, k := range known {
				if f == k { // equal facets of all rows are the same pointer
					has |= 1 << i
				}
			}
		}
		counts[has]++
		return true
	})
	return counts
}

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
