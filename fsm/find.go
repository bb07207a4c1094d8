package fsm

import (
	"bytes"
	"slices"
	"strings"

	"github.com/tidwall/btree"
)

// Facets say which rows can match a filter at all: those with one value under a path, those in all
// of several sets, or those in any. Exactly one of the three is set; an empty Any has no rows.
type Facets struct {
	Path, Value string
	All, Any    []Facets
}

// cursor walks over row keys in their order.
type cursor interface {
	// seek returns the first key that is not below at.
	seek(at string) (string, bool)
}

// cursor returns the keys of a set.
func (t *rowset) cursor(s Facets) cursor {
	switch {
	case s.Path != "":
		return &having{t.facets, t.intern(&facet{s.Path, s.Value})}
	case len(s.All) > 0:
		return everyOf(t.cursors(s.All))
	}
	return anyOf(t.cursors(s.Any))
}

func (t *rowset) cursors(sets []Facets) []cursor {
	var all []cursor
	for _, s := range sets {
		all = append(all, t.cursor(s))
	}
	return all
}

// having are the rows with a facet.
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

// everyOf are the rows that all cursors have.
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
		if at == from { // nobody has moved on
			return at, true
		}
	}
}

// anyOf are the rows that one of the cursors has.
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

// Query says which rows are worth a look. It may let through rows that do not match, and never
// keeps one back that does.
type Query struct {
	// Facets the row has; nil for all rows.
	Facets *Facets
	// Texts that all stand in the row's encoded record, such as a serial number: what has none of
	// them need not be decoded.
	Texts []string
}

// findRows visits the rows with key > after that a query lets through, by key.
func (t *rowset) findRows(q Query, after string, visit func(*record) bool) {
	texts := make([][]byte, len(q.Texts))
	for i, text := range q.Texts {
		texts[i] = []byte(text)
	}
	see := func(r *record) bool {
		return slices.ContainsFunc(texts, func(text []byte) bool { return !bytes.Contains(r.value, text) }) || visit(r)
	}
	if q.Facets == nil {
		t.rowsFrom("", after, see)
		return
	}
	t.having(t.cursor(*q.Facets), after, see)
}

func (t *rowset) having(c cursor, after string, visit func(*record) bool) {
	for {
		key, ok := c.seek(after + "\x00") // the next key that there can be
		if !ok {
			return
		}
		after = key
		if r, ok := t.rows.Get(&record{key: key}); !ok || !visit(r) {
			return
		}
	}
}

// String shows a set for people, and for tests.
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
