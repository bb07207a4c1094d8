package table

import (
	"fmt"
	"runtime"
	"sync"

	"google.golang.org/protobuf/proto"

	"github.com/holdfast-metal/holdfast/fsm/internal/wire"
)

// rowCheck is the part that all loaders share: it refuses a row that does not decode or whose
// key is wrong.
type rowCheck struct {
	rules    rules
	shape    *wire.Shape
	partials *sync.Pool // of partial decoders; nil if rows are decoded in full
}

// partialDecoder decodes a row in part. The message is valid until the next call.
type partialDecoder = func(row string) proto.Message

func newRowCheck(r rules) rowCheck {
	c := rowCheck{rules: r, shape: wire.ShapeOf(r.fresh().ProtoReflect().Descriptor())}
	if r.partial != nil {
		c.partials = &sync.Pool{New: func() any { return r.partial() }}
	}
	return c
}

// each checks rows and passes each message to see. The message is valid until the next one.
func (in *rowCheck) each(rows []incoming, see func(proto.Message)) error {
	var partial partialDecoder
	if in.partials != nil {
		partial = in.partials.Get().(partialDecoder)
		defer in.partials.Put(partial)
	}
	for i := range rows {
		if i%yieldRows == 0 {
			runtime.Gosched()
		}
		r := &rows[i]
		m, err := in.decode(r.value(), partial)
		if err != nil {
			return fmt.Errorf("decode record %q of %v: %w", r.key, in.rules.kind, err)
		}
		if want := in.rules.key(m); want != r.key {
			return fmt.Errorf("record of %v is under %q, want %q", in.rules.kind, r.key, want)
		}
		see(m)
	}
	return nil
}

// decode decodes a row: in part if there is a partial decoder and the row decodes, else in full.
func (in *rowCheck) decode(value []byte, partial partialDecoder) (proto.Message, error) {
	if partial != nil && in.shape.Fits(value) {
		return partial(textOf(value)), nil
	}
	m := in.rules.fresh()
	return m, proto.Unmarshal(value, m)
}

// verifier is a bulkLoader that checks and counts rows and keeps none.
type verifier struct {
	rowCheck
	table string // its name
	order keyOrder
	n     int
}

func (in *verifier) len() int { return in.n }

func (in *verifier) prepare(rows []incoming) error {
	return in.each(rows, func(proto.Message) {})
}

func (in *verifier) add(rows []incoming) error {
	in.n += len(rows)
	return in.order.next(in.table, rows)
}

func (in *verifier) trees() []func() { return nil }
