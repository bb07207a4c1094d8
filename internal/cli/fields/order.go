package fields

import (
	"cmp"
	"fmt"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// Order compares messages by the value at a path. Numbers in text compare as numbers (m-2
// before m-10); missing values sort last. It returns an error if values of the field have no
// order.
func (p Path) Order() (func(a, b protoreflect.Message) int, error) {
	last := p.steps[len(p.steps)-1]
	switch {
	case last.IsMap() && p.key == "":
		return nil, fmt.Errorf("%q is a map: name a key: %s.KEY", last.Name(), last.Name())
	case last.IsMap() && last.MapValue().Message() != nil, last.IsList(),
		!last.IsMap() && last.Message() != nil && !isTime(last.Message()):
		return nil, fmt.Errorf("%q is not a single value and cannot be sorted by", last.Name())
	}
	if last.IsMap() {
		last = last.MapValue()
	}
	return func(a, b protoreflect.Message) int {
		va, okA := p.value(a)
		vb, okB := p.value(b)
		if !okA || !okB {
			return cmp.Compare(rank(okA), rank(okB))
		}
		return compare(last, va, vb)
	}, nil
}

func rank(there bool) int {
	if there {
		return 0
	}
	return 1
}

func (p Path) value(m protoreflect.Message) (protoreflect.Value, bool) {
	for _, fd := range p.steps[:len(p.steps)-1] {
		if !m.Has(fd) {
			return protoreflect.Value{}, false
		}
		m = m.Get(fd).Message()
	}
	last := p.steps[len(p.steps)-1]
	if !last.IsMap() {
		// A number or bool that is 0 is a value; an empty text is none.
		return m.Get(last), m.Has(last) || (last.Message() == nil && last.Kind() != protoreflect.StringKind)
	}
	v := m.Get(last).Map().Get(protoreflect.ValueOfString(p.key).MapKey())
	return v, v.IsValid()
}

func compare(fd protoreflect.FieldDescriptor, a, b protoreflect.Value) int {
	switch fd.Kind() {
	case protoreflect.BoolKind:
		return rank(!a.Bool()) - rank(!b.Bool())
	case protoreflect.EnumKind:
		return cmp.Compare(a.Enum(), b.Enum())
	case protoreflect.MessageKind:
		return compareTime(a.Message(), b.Message())
	case protoreflect.Int32Kind, protoreflect.Int64Kind, protoreflect.Sint32Kind, protoreflect.Sint64Kind,
		protoreflect.Sfixed32Kind, protoreflect.Sfixed64Kind:
		return cmp.Compare(a.Int(), b.Int())
	case protoreflect.Uint32Kind, protoreflect.Uint64Kind, protoreflect.Fixed32Kind, protoreflect.Fixed64Kind:
		return cmp.Compare(a.Uint(), b.Uint())
	case protoreflect.FloatKind, protoreflect.DoubleKind:
		return cmp.Compare(a.Float(), b.Float())
	}
	return Natural(a.String(), b.String())
}

// compareTime compares two timestamps, or two durations: both are seconds and nanoseconds.
func compareTime(a, b protoreflect.Message) int {
	for _, name := range []protoreflect.Name{"seconds", "nanos"} {
		fd := a.Descriptor().Fields().ByName(name)
		if c := cmp.Compare(a.Get(fd).Int(), b.Get(fd).Int()); c != 0 {
			return c
		}
	}
	return 0
}

// Natural compares texts with the numbers in them as numbers.
func Natural(a, b string) int {
	x, y := a, b
	for x != "" && y != "" {
		nx, ny := digits(x), digits(y)
		if nx > 0 && ny > 0 {
			dx, dy := strings.TrimLeft(x[:nx], "0"), strings.TrimLeft(y[:ny], "0")
			if c := cmp.Or(cmp.Compare(len(dx), len(dy)), cmp.Compare(dx, dy)); c != 0 {
				return c
			}
			x, y = x[nx:], y[ny:]
			continue
		}
		if c := cmp.Compare(x[0], y[0]); c != 0 {
			return c
		}
		x, y = x[1:], y[1:]
	}
	return cmp.Or(cmp.Compare(len(x), len(y)), cmp.Compare(a, b))
}

func digits(s string) int {
	n := 0
	for n < len(s) && s[n] >= '0' && s[n] <= '9' {
		n++
	}
	return n
}
