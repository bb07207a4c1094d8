package fsm

import (
	"bytes"
	"slices"
	"unsafe"
)

// A snapshot has millions of rows, and what is kept of each is short: the collector looks at every
// piece that was allocated, so many of them are allocated at once.

// roomSize is how much is allocated at once, in bytes.
const roomSize = 32 << 10

// room keeps copies of what is short. What it has allocated is freed when none of them is used any
// more.
type room struct{ free []byte }

func (r *room) keep(b []byte) []byte {
	if len(b) > roomSize/8 {
		return bytes.Clone(b)
	}
	if len(b) > len(r.free) {
		r.free = make([]byte, roomSize)
	}
	kept := r.free[:len(b):len(b)]
	r.free = r.free[len(b):]
	copy(kept, b)
	return kept
}

// textOf returns bytes that never change as a text, without a copy.
func textOf(b []byte) string {
	return unsafe.String(unsafe.SliceData(b), len(b)) //nolint:gosec // nobody writes to them
}

// parts are slices that follow on each other in one.
type parts[T any] struct {
	all  []T
	ends []int
}

// end ends the part that was added to last.
func (p *parts[T]) end() { p.ends = append(p.ends, len(p.all)) }

// pack releases the room that no part has. Nothing is added after it.
func (p *parts[T]) pack() { p.all = slices.Clip(slices.Clone(p.all)) }

// part returns one of them, by number.
func (p *parts[T]) part(i int) []T {
	from := 0
	if i > 0 {
		from = p.ends[i-1]
	}
	return p.all[from:p.ends[i]:p.ends[i]]
}
