package table

import (
	"bytes"
	"fmt"
	"slices"
	"sync"

	"google.golang.org/protobuf/proto"
)

// guard finds messages that were changed after they were stored, which would make peers
// differ. It remembers the bytes of each stored message until its row is replaced or encoded.
// Only tests use it, because it encodes every row that is written. It is safe for concurrent
// use. All its methods work on nil and do nothing then.
type guard struct {
	mu   sync.Mutex
	rows map[*Record]guardedRow
}

// guardedRow is a row as it was stored.
type guardedRow struct {
	key   string
	value []byte
}

// Guard makes a table panic if a message that is stored from now on was changed. A row is
// checked when it is replaced, deleted or encoded, and some rows whenever the table is copied.
// Builds with the tag "rowguard" guard all tables.
func (t *Rowset) Guard() { t.guard = &guard{rows: map[*Record]guardedRow{}} }

// store remembers the row of a message.
func (g *guard) store(r row, m proto.Message) {
	if g == nil {
		return
	}
	value := mustEncode(m)
	g.mu.Lock()
	defer g.mu.Unlock()
	g.rows[r.Record] = guardedRow{r.key, value}
}

// drop checks a row for the last time.
func (g *guard) drop(r row) {
	if g == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if was, ok := g.rows[r.Record]; ok {
		was.check(r.Record)
		delete(g.rows, r.Record)
	}
}

// guardSample is the number of rows that a copy of a table checks.
const guardSample = 64

// sample checks some of the rows, all if there are few.
func (g *guard) sample() {
	if g == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	n := 0
	for r, was := range g.rows { // begins anywhere
		if n++; n > guardSample {
			return
		}
		was.check(r)
	}
}

// sameKeys panics if a message has other index keys than its schema claims to be unchanged.
func (g *guard) sameKeys(t *Rowset, old, m proto.Message) {
	if g == nil {
		return
	}
	had := slices.Clone(t.keysOf(old))
	if has := t.keysOf(m); !slices.Equal(has, had) {
		panic(fmt.Sprintf("index keys of %v were %v, and are %v", m, had, has))
	}
}

func (was guardedRow) check(r *Record) {
	if b := r.box.Load(); b != nil { // else it was encoded since
		was.checkMessage(b.message)
	}
}

func (was guardedRow) checkMessage(m proto.Message) {
	if is := mustEncode(m); !bytes.Equal(is, was.value) {
		old := m.ProtoReflect().New().Interface()
		if err := proto.Unmarshal(was.value, old); err != nil {
			panic(err)
		}
		panic(fmt.Sprintf("row %q was changed after it was stored: %T was\n%v, and is\n%v", was.key, old, old, m))
	}
}
