package table

import (
	"fmt"
	"runtime"

	"google.golang.org/protobuf/proto"

	"github.com/holdfast-metal/holdfast/fsm/internal/wire"
)

// rowCheck is the part that all loaders share: it refuses a row that does not decode or whose
// key is wrong.
type rowCheck struct {
	rules rules
	shape *wire.Shape
}

func newRowCheck(r rules) rowCheck {
	return rowCheck{rules: r, shape: wire.ShapeOf(r.fresh().ProtoReflect().Descriptor())}
}

// each checks rows and passes each message to see. The message is valid until the next one.
func (in *rowCheck) each(rows []incoming, see func(proto.Message)) error {
	read := in.reader()
	for i := range rows {
		if i%yieldRows == 0 {
			runtime.Gosched()
		}
		r := &rows[i]
		m, err := read(r.value())
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

// reader returns the function that reads a row: the table's partial decoder if it has one,
// and the row decodes.
func (in *rowCheck) reader() func(value []byte) (proto.Message, error) {
	decode := func(value []byte) (proto.Message, error) {
		m := in.rules.fresh()
		return m, proto.Unmarshal(value, m)
	}
	if in.rules.partial == nil {
		return decode
	}
	partial := in.rules.partial()
	return func(value []byte) (proto.Message, error) {
		if !in.shape.Fits(value) {
			return decode(value) // returns the error
		}
		return partial(textOf(value)), nil
	}
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
