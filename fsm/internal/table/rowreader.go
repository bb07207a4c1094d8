package table

import (
	"fmt"
	"sync"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

const (
	batchRows    = 256     // rows in a batch
	batchBytes   = 1 << 20 // or fewer, if they are as large as this
	batchesAhead = 4       // batches decoded ahead
)

// rowReader reads the rows of a snapshot into their tables.
type rowReader struct {
	in      *summingReader
	tables  []Rows
	loaders map[internalv1.SnapshotRecord_Table]bulkLoader // by table

	keys, values arena // of the rows

	batch   *rowBatch   // being filled
	pending []*rowBatch // being decoded, in the order of the snapshot
	err     error       // the first error in a row
}

type rowBatch struct {
	into  bulkLoader
	rows  []incoming
	bytes int
	done  chan error // buffered
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
	for n := uint64(0); ; {
		raw, err := r.in.next()
		if err != nil {
			return n, fmt.Errorf("read record %d: %w", n+1, wholeness(err))
		}
		kind, key, value, err := parseRecord(raw)
		if err != nil {
			return n, fmt.Errorf("read record %d: %w", n+1, err)
		}
		if kind == internalv1.SnapshotRecord_TABLE_UNSPECIFIED {
			return n, nil
		}
		n++
		into := r.loaders[kind]
		if into == nil {
			return n, fmt.Errorf("record %d is of table %d, which this build does not know: upgrade it", n, kind)
		}
		if err := r.take(into, key, value); err != nil {
			return n, err
		}
	}
}

// take copies a row into a batch. Keys have their own arena, because they outlive their rows
// when these are replaced.
func (r *rowReader) take(into bulkLoader, key, value []byte) error {
	if b := r.batch; b != nil && (b.into != into || len(b.rows) == batchRows || b.bytes >= batchBytes) {
		r.send()
		if len(r.pending) > batchesAhead {
			if r.receive(); r.err != nil {
				return r.err
			}
		}
	}
	if r.batch == nil {
		r.batch = &rowBatch{into: into, rows: make([]incoming, 0, batchRows), done: make(chan error, 1)}
	}
	in := row{textOf(r.keys.keep(key)), &Record{value: r.values.keep(value)}}
	r.batch.rows = append(r.batch.rows, incoming{row: in})
	r.batch.bytes += len(value)
	return nil
}

// send starts decoding the current batch.
func (r *rowReader) send() {
	b := r.batch
	if b == nil {
		return
	}
	r.batch, r.pending = nil, append(r.pending, b)
	go func() { b.done <- b.into.prepare(b.rows) }() // read and receive wait for it
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

// The fields of internalv1.SnapshotRecord. There is one for every row, so it is encoded and
// decoded by hand.
const (
	recordTable protowire.Number = 1
	recordKey   protowire.Number = 2
	recordValue protowire.Number = 3
)

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
// protodelim.
func appendRecord(to []byte, kind internalv1.SnapshotRecord_Table, key string, value []byte) []byte {
	size := 0
	if kind != 0 {
		size += protowire.SizeTag(recordTable) + protowire.SizeVarint(uint64(kind))
	}
	if key != "" {
		size += protowire.SizeTag(recordKey) + protowire.SizeBytes(len(key))
	}
	if len(value) > 0 {
		size += protowire.SizeTag(recordValue) + protowire.SizeBytes(len(value))
	}
	to = protowire.AppendVarint(to, uint64(size))
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
