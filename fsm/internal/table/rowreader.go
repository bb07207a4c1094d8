package table

import (
	"bytes"
	"fmt"
	"strings"
	"sync"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// batchesAhead is the number of batches that are decoded ahead. A batch becomes a page.
const batchesAhead = 4

// rowReader reads the rows of a snapshot into their tables.
type rowReader struct {
	in      *summingReader
	tables  []Rows
	loaders map[internalv1.SnapshotRecord_Table]bulkLoader // by table

	keys arena // of the rows

	batch   *rowBatch   // being filled
	raw     []byte      // its rows as in a page
	pending []*rowBatch // being decoded, in the order of the snapshot
	err     error       // the first error in a row
}

// rowBatch is a batch of rows of one table.
type rowBatch struct {
	into  bulkLoader
	rows  []incoming
	spans []span
	done  chan error // buffered
}

// seal makes a page of the batch.
func (b *rowBatch) seal(raw []byte) {
	cells, records := newPage(raw, b.spans), make([]Record, len(b.spans))
	for i := range b.rows {
		records[i].cell.Store(&cells[i])
		b.rows[i].Record = &records[i]
	}
}

// newRowReader returns a reader of rows into empty tables. If keep is false, it only checks
// them.
func newRowReader(in *summingReader, tables []Rows, keep bool) *rowReader {
	r := &rowReader{in: in, tables: tables, loaders: map[internalv1.SnapshotRecord_Table]bulkLoader{}}
	for _, t := range r.tables {
		r.loaders[t.kind()] = t.newLoader(keep)
	}
	return r
}

// read reads all rows and returns their number. It returns the first error in the order of
// the snapshot, however far the decoding of later rows has come.
func (r *rowReader) read() (uint64, error) {
	n, err := r.each()
	r.send()
	for len(r.pending) > 0 { // also after an error, so that no goroutine is left
		r.receive()
	}
	if r.err != nil {
		return 0, r.err
	}
	return n, err
}

func (r *rowReader) each() (uint64, error) {
	last := "the header"
	for n := uint64(0); ; {
		raw, err := r.in.next()
		if err != nil {
			return n, fmt.Errorf("read record %d, after %s: %w", n+1, last, cutOff(err))
		}
		kind, key, value, err := parseRecord(raw)
		if err != nil {
			return n, fmt.Errorf("read record %d, after %s: %w", n+1, last, err)
		}
		if kind == internalv1.SnapshotRecord_TABLE_UNSPECIFIED {
			return n, nil
		}
		n++
		into := r.loaders[kind]
		if into == nil {
			return n, fmt.Errorf("record %d is of table %d, which this build does not know: upgrade it", n, kind)
		}
		if r.batch == nil || r.batch.into != into {
			last = "one of " + strings.ToLower(kind.String())
		}
		if err := r.take(into, kind, key, value); err != nil {
			return n, err
		}
	}
}

// take copies a row into a batch. Keys have their own arena, because they outlive their rows
// when these are replaced. A row of a newer build may have more fields, which are dropped.
func (r *rowReader) take(into bulkLoader, kind internalv1.SnapshotRecord_Table, key, value []byte) error {
	name := textOf(r.keys.keep(key))
	size := recordSize(kind, name, value)
	if b := r.batch; b != nil && (b.into != into || len(r.raw)+size > pageBytes) {
		r.send()
		if len(r.pending) > batchesAhead {
			if r.receive(); r.err != nil {
				return r.err
			}
		}
	}
	if r.batch == nil {
		r.batch = &rowBatch{into: into, done: make(chan error, 1)}
	}
	r.raw = appendRecord(r.raw, kind, name, value)
	b := r.batch
	b.rows = append(b.rows, incoming{row: row{key: name}})
	b.spans = append(b.spans, span{end: uint32(len(r.raw)), size: uint32(len(value))})
	return nil
}

// send starts decoding the current batch.
func (r *rowReader) send() {
	b, raw := r.batch, bytes.Clone(r.raw)
	if b == nil {
		return
	}
	r.batch, r.raw, r.pending = nil, r.raw[:0], append(r.pending, b)
	go func() { // read and receive wait for it
		b.seal(raw)
		b.done <- b.into.prepare(b.rows)
	}()
}

// receive adds the oldest batch to its table.
func (r *rowReader) receive() {
	b := r.pending[0]
	r.pending = r.pending[1:]
	if err := <-b.done; r.err == nil {
		if r.err = err; err == nil {
			r.err = b.into.add(b.rows)
		}
	}
}

// build builds the trees of all tables, several at once.
func (r *rowReader) build() {
	var all sync.WaitGroup
	turn := make(chan struct{}, batchesAhead)
	for _, t := range r.tables {
		for _, grow := range r.loaders[t.kind()].trees() {
			turn <- struct{}{}
			all.Go(func() {
				grow()
				<-turn
			})
		}
	}
	all.Wait()
}

func (r *rowReader) counts() []Count {
	var counts []Count
	for _, t := range r.tables {
		counts = append(counts, Count{Table: t.Name(), Records: uint64(r.loaders[t.kind()].len())})
	}
	return counts
}

// The numbers of the fields of internalv1.SnapshotRecord. There is a record for every row, so
// records are encoded and decoded without a message, which would be garbage.
var (
	recordTable = recordField("table")
	recordKey   = recordField("key")
	recordValue = recordField("value")
)

func recordField(name protoreflect.Name) protowire.Number {
	return (*internalv1.SnapshotRecord)(nil).ProtoReflect().Descriptor().Fields().ByName(name).Number()
}

// parseRecord decodes an internalv1.SnapshotRecord as proto.Unmarshal does. Key and value
// alias raw.
func parseRecord(raw []byte) (kind internalv1.SnapshotRecord_Table, key, value []byte, _ error) {
	for len(raw) > 0 {
		field, wire, n := protowire.ConsumeTag(raw)
		if n < 0 {
			return 0, nil, nil, fmt.Errorf("decode it: %w", protowire.ParseError(n))
		}
		raw = raw[n:]
		switch {
		case field > protowire.MaxValidNumber: // ConsumeTag accepts it
			return 0, nil, nil, fmt.Errorf("decode it: field %d is above the highest number %d",
				field, protowire.MaxValidNumber)
		case field == recordTable && wire == protowire.VarintType:
			var v uint64
			v, n = protowire.ConsumeVarint(raw)
			kind = internalv1.SnapshotRecord_Table(v)
		case field == recordValue && wire == protowire.BytesType:
			value, n = protowire.ConsumeBytes(raw)
		case field == recordKey && wire == protowire.BytesType:
			if key, n = protowire.ConsumeBytes(raw); !utf8.Valid(key) {
				return 0, nil, nil, fmt.Errorf("decode it: its key %q is not UTF-8", key)
			}
		default:
			n = protowire.ConsumeFieldValue(field, wire, raw)
		}
		if n < 0 {
			return 0, nil, nil, fmt.Errorf("decode it: %w", protowire.ParseError(n))
		}
		raw = raw[n:]
	}
	return kind, key, value, nil
}

// appendRecord appends a length-prefixed internalv1.SnapshotRecord, with the same bytes as
// protodelim. The value comes last.
func appendRecord(to []byte, kind internalv1.SnapshotRecord_Table, key string, value []byte) []byte {
	to = protowire.AppendVarint(to, uint64(fieldsSize(kind, key, value)))
	if kind != 0 {
		to = protowire.AppendVarint(protowire.AppendTag(to, recordTable, protowire.VarintType), uint64(kind))
	}
	if key != "" {
		to = protowire.AppendString(protowire.AppendTag(to, recordKey, protowire.BytesType), key)
	}
	if len(value) > 0 {
		to = protowire.AppendBytes(protowire.AppendTag(to, recordValue, protowire.BytesType), value)
	}
	return to
}

// recordSize returns the number of bytes that appendRecord appends.
func recordSize(kind internalv1.SnapshotRecord_Table, key string, value []byte) int {
	return protowire.SizeBytes(fieldsSize(kind, key, value))
}

func fieldsSize(kind internalv1.SnapshotRecord_Table, key string, value []byte) (size int) {
	if kind != 0 {
		size += protowire.SizeTag(recordTable) + protowire.SizeVarint(uint64(kind))
	}
	if key != "" {
		size += protowire.SizeTag(recordKey) + protowire.SizeBytes(len(key))
	}
	if len(value) > 0 {
		size += protowire.SizeTag(recordValue) + protowire.SizeBytes(len(value))
	}
	return size
}
