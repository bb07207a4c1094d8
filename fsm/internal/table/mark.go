package table

// Mark identifies the contents of a table: while the pointer is the same, so are the
// contents.
type Mark struct{ _ byte } // not empty: all empty values may have the same address

// mark is the Mark of a table. It is replaced at the first change after a copy or a caller has it,
// because most tables change many times between two copies.
type mark struct {
	at   *Mark
	seen bool
}

func newMark() mark { return mark{at: new(Mark), seen: true} }

// change records a change of the table.
func (m *mark) change() {
	if m.seen {
		*m = mark{at: new(Mark)}
	}
}

// shared returns the mark for a copy of the table, or for a caller. It writes only after a
// change, so it is safe for concurrent use in a table that does not change.
func (m *mark) shared() mark {
	if !m.seen {
		m.seen = true
	}
	return *m
}

// Mark returns a value that changes whenever the table does.
func (t *Rowset) Mark() *Mark { return t.mark.shared().at }

// Roll returns a value that changes whenever a row is inserted or deleted.
func (t *Rowset) Roll() *Mark { return t.roll.shared().at }

// scratch has the memory that the writes of a table reuse.
type scratch struct {
	keys     []indexKey
	had      []indexKey
	addKey   func(index int, key string)
	partial  partialDecoder
	facets   []facetParts
	addFacet func(prefix, name, value string)
	known    map[facetParts]*facet
}
