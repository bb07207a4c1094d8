package table

import (
	"bytes"
	"slices"
	"sync/atomic"

	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// The encoded rows of a table lie in pages: consecutive rows, as the snapshot has them. A
// snapshot writes a page that did not change as it is, and encodes the others. Where a page
// begins depends on the history of a peer, but the bytes of a snapshot do not show it.

const (
	pageBytes = 64 << 10      // of a new page, if its rows are small
	pageLeast = pageBytes / 4 // a smaller page is joined to the next
	pageMost  = 2 * pageBytes // a larger one is cut
)

// page is an immutable sequence of rows.
type page struct {
	raw  []byte // the rows as in the stream of a snapshot
	rows int    // 0 for a row that was encoded alone, which is not in the form of the stream

	packed atomic.Pointer[[]byte] // raw, compressed; nil until a file needs it
}

// cell is the place of a row's bytes in a page.
type cell struct {
	page       *page
	from, size uint32
}

func (c *cell) value() []byte {
	end := c.from + c.size
	return c.page.raw[c.from:end:end]
}

// loneCell returns a cell for a row that is encoded alone.
func loneCell(value []byte) *cell {
	return &cell{page: &page{raw: value}, size: uint32(len(value))}
}

// newPage returns a page and the cells of its rows. ends has the end of each row in raw, and
// sizes the length of its value, which comes last in a row.
func newPage(raw []byte, spans []span) []cell {
	p := &page{raw: raw, rows: len(spans)}
	cells := make([]cell, len(spans))
	for i, s := range spans {
		cells[i] = cell{page: p, from: s.end - s.size, size: s.size}
	}
	return cells
}

// span is a row in the bytes of a page. Its value is the last part of it.
type span struct{ end, size uint32 }

func (s span) value(raw []byte) []byte { return raw[s.end-s.size : s.end : s.end] }

// pageBuilder builds pages one after the other.
type pageBuilder struct {
	kind  internalv1.SnapshotRecord_Table
	raw   []byte
	spans []span
	value []byte // of one row
}

// add adds a row, which is a message or an encoded row.
func (b *pageBuilder) add(key string, row any) {
	b.value = appendRow(b.value[:0], row)
	b.raw = appendRecord(b.raw, b.kind, key, b.value)
	b.spans = append(b.spans, span{end: uint32(len(b.raw)), size: uint32(len(b.value))})
}

// build returns a page of the rows that were added, and their places.
func (b *pageBuilder) build() (*page, []span) {
	p, spans := &page{raw: bytes.Clone(b.raw), rows: len(b.spans)}, slices.Clone(b.spans)
	b.raw, b.spans = b.raw[:0], b.spans[:0]
	return p, spans
}
