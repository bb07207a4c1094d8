package table

import (
	"bytes"
	"fmt"
	"unsafe"

	"github.com/cespare/xxhash/v2"
	"github.com/tidwall/btree"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// The tests of tables are in an external package, because schemas import this one.
const (
	BatchRows      = 1000 // more than fit into a page, if each has some 100 bytes
	ChunkRows      = chunkRows
	SnapshotFormat = snapshotFormat
)

// Encode returns the bytes of a row.
func Encode(m proto.Message) []byte { return mustEncode(m) }

// IndexLen returns the number of entries of an index.
func IndexLen[P proto.Message](t *Table[P], index int) int { return t.indexes[index].Len() }

// Memberships returns the number of pairs of a row and its facet.
func Memberships[P proto.Message](t *Table[P]) int { return t.facets.Len() }

// FacetsAt returns the facets of a row as they are held.
func FacetsAt[P proto.Message](t *Table[P], key string) []*facet {
	r, _ := t.Row(key)
	return r.facets
}

// Loader loads rows as the reader of a snapshot does.
type Loader struct {
	rows []incoming
	in   bulkLoader
}

// NewLoader returns the loader of an empty table or sequence with some rows.
func NewLoader(t Rows, keep bool, keys []string, values [][]byte) *Loader {
	l := &Loader{in: t.newLoader(keep)}
	for i, k := range keys {
		r := &Record{}
		r.cell.Store(loneCell(values[i]))
		l.rows = append(l.rows, incoming{row: row{k, r}})
	}
	return l
}

// Prepare decodes and checks the rows.
func (l *Loader) Prepare() error { return l.in.prepare(l.rows) }

// Add adds the rows.
func (l *Loader) Add() error { return l.in.add(l.rows) }

// Trees returns the contents of a table's trees, in order.
func Trees[P proto.Message](t *Table[P]) []string {
	var all []string
	t.rows.Scan(func(r row) bool {
		all = append(all, fmt.Sprintf("%s %x", r.key, t.encoded(r)))
		return true
	})
	for i, ix := range t.indexes {
		ix.Scan(func(e entry) bool {
			all = append(all, fmt.Sprintf("index %d: %s %s", i, e.key, e.row))
			return true
		})
		if n := count(ix); n != ix.Len() {
			all = append(all, fmt.Sprintf("index %d says that it has %d, and has %d", i, ix.Len(), n))
		}
	}
	t.facets.Scan(func(m membership) bool {
		all = append(all, fmt.Sprintf("facet %s=%s: %s", m.facet.path, m.facet.value, m.row))
		return true
	})
	return all
}

func count[T any](tree *btree.BTreeG[T]) (n int) {
	tree.Scan(func(T) bool { n++; return true })
	return n
}

// Pages returns the pages that a snapshot of a table consists of.
func Pages[P proto.Message](t *Table[P]) []*page {
	var all []*page
	if err := t.pages(func(p *page) error { all = append(all, p); return nil }); err != nil {
		panic(err)
	}
	return all
}

// KeysInPages returns the index keys of encoded rows that are parts of a page.
func KeysInPages[P proto.Message](t *Table[P]) (keys []string) {
	for _, ix := range t.indexes {
		ix.Scan(func(e entry) bool {
			r, _ := t.find(e.row)
			raw := r.cell.Load().page.raw
			from, at := uintptr(unsafe.Pointer(&raw[0])), uintptr(unsafe.Pointer(unsafe.StringData(e.key)))
			if at >= from && at < from+uintptr(len(raw)) {
				keys = append(keys, e.key)
			}
			return true
		})
	}
	return keys
}

// Plain returns the snapshot of a table as it would be without pages.
func Plain[P proto.Message](meta *internalv1.Meta, t *Table[P]) []byte {
	var out bytes.Buffer
	write := func(p *page) error { _, err := out.Write(p.raw); return err }
	must := func(err error) {
		if err != nil {
			panic(err)
		}
	}
	must(writeMessage(&internalv1.SnapshotHeader{Format: snapshotFormat, Meta: meta}, write))
	n := uint64(0)
	t.rows.Scan(func(r row) bool {
		must(write(&page{raw: appendRecord(nil, t.rules.kind, r.key, t.encode(nil, r))}))
		n++
		return true
	})
	must(writeMessage(&internalv1.SnapshotRecord{}, write))
	must(writeMessage(&internalv1.SnapshotTrailer{Records: n, Checksum: xxhash.Sum64(out.Bytes())}, write))
	return out.Bytes()
}
