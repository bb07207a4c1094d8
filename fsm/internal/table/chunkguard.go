package table

import (
	"fmt"
	"sync"

	"google.golang.org/protobuf/proto"
)

// chunkGuard is the guard of a sequence: it remembers the bytes of each stored message until
// its chunk is dropped or encoded. All its methods work on nil and do nothing then.
type chunkGuard struct {
	mu   sync.Mutex
	rows map[*chunk]map[int]guardedRow
}

// Guard makes a sequence panic if a message that is stored from now on was changed: see
// Rowset.Guard.
func (s *series) Guard() { s.guard = &chunkGuard{rows: map[*chunk]map[int]guardedRow{}} }

// store remembers the message in a slot.
func (g *chunkGuard) store(c *chunk, i int, m proto.Message) {
	if g == nil {
		return
	}
	was := guardedRow{fmt.Sprint("slot ", i), mustEncode(m)}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.rows[c] == nil {
		g.rows[c] = map[int]guardedRow{}
	}
	g.rows[c][i] = was
}

// drop checks a chunk for the last time.
func (g *chunkGuard) drop(c *chunk) {
	if g == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if hot := c.hot.Load(); hot != nil {
		for i, was := range g.rows[c] {
			was.checkMessage(hot[i].(proto.Message))
		}
	}
	delete(g.rows, c)
}

// sample checks some of the rows, all if there are few.
func (g *chunkGuard) sample() {
	if g == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	n := 0
	for c, rows := range g.rows { // begins anywhere
		hot := c.hot.Load()
		for i, was := range rows {
			if n++; n > guardSample {
				return
			}
			if hot != nil {
				was.checkMessage(hot[i].(proto.Message))
			}
		}
	}
}
