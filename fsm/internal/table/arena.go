package table

import (
	"bytes"
	"slices"
	"unsafe"
)

// arenaSize is the size of one allocation, in bytes. A snapshot has millions of keys, and each is
// short. The garbage collector visits every allocation, so many keys share one.
const arenaSize = 32 << 10

// arena copies short byte slices into shared allocations. An allocation is freed when none of
// its slices is in use.
type arena struct{ free []byte }

func (r *arena) keep(b []byte) []byte {
	if len(b) > arenaSize/8 {
		return bytes.Clone(b)
	}
	if len(b) > len(r.free) {
		r.free = make([]byte, arenaSize)
	}
	kept := r.free[:len(b):len(b)]
	r.free = r.free[len(b):]
	copy(kept, b)
	return kept
}

// textOf returns bytes that never change as a string, without a copy.
func textOf(b []byte) string {
	return unsafe.String(unsafe.SliceData(b), len(b)) //nolint:gosec // the bytes never change
}

// parts is a list of slices that share one backing array.
type parts[T any] struct {
	all  []T
	ends []int
}

// end ends the current part and returns its beginning.
func (p *parts[T]) end() (from int) {
	if n := len(p.ends); n > 0 {
		from = p.ends[n-1]
	}
	p.ends = append(p.ends, len(p.all))
	return from
}

// pack releases spare capacity. Nothing may be added after it.
func (p *parts[T]) pack() { p.all = slices.Clip(slices.Clone(p.all)) }

// part returns part i.
func (p *parts[T]) part(i int) []T {
	from := 0
	if i > 0 {
		from = p.ends[i-1]
	}
	return p.all[from:p.ends[i]:p.ends[i]]
}
