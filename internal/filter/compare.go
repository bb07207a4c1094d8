package filter

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/timestamppb"
)

const timestamp = protoreflect.FullName("google.protobuf.Timestamp")

// comparison is one comparison of a field with a value.
type comparison struct {
	*field
	op    string
	exact string // the value, if = demands exactly one text
	isSet bool   // matches if the field is set
	any   bool   // matches any value, including an unknown one
	lost  bool   // matches elements whose value is unknown
	test  func(protoreflect.Value) bool

	demands *string // the value that = or : demands, if there is one
	holds   string  // a substring of every matching value; may be empty
}

// newComparison checks that the operator and the value fit the field's type.
func newComparison(f *field, op string, written literal) (*comparison, error) {
	value := written.text()
	c := &comparison{field: f, op: op}
	fd := f.leaf().fd
	if f.mayBeUnknown() && strings.EqualFold(value, "unknown") && c.unordered() {
		c.lost = true
		c.test = func(protoreflect.Value) bool { return true }
		return c, nil
	}
	if f.repeated && op != opHas {
		return nil, fmt.Errorf("%s is repeated: ask whether it has a value with %s:%s", f.path, f.path, value)
	}
	anything := op == opHas && value == "*" && !written.quoted
	c.any = anything
	switch {
	case fd.IsMap() && f.leaf().key == nil:
		if op != opHas {
			return nil, fmt.Errorf("%s is a map: compare one entry with %s.key %s %s, or ask for a key with %s:key",
				f.path, f.path, op, value, f.path)
		}
		c.test = hasKey(value, anything)
		return c, nil
	case anything:
		c.isSet = f.steps[max(0, len(f.steps)-2)].by == nil // an element that exists has been set
		c.test = func(protoreflect.Value) bool { return true }
		return c, nil
	case fd.IsMap():
		fd = fd.MapValue()
	}
	if f.fold != nil {
		written = written.fold(f.fold)
	}
	return c, c.compile(fd, written)
}

func hasKey(key string, anything bool) func(protoreflect.Value) bool {
	return func(v protoreflect.Value) bool {
		if anything {
			return v.Map().Len() > 0
		}
		return v.Map().Has(protoreflect.ValueOfString(key).MapKey())
	}
}

// compile builds the test for one value. For != it builds the test for =, and eval inverts
// it.
func (c *comparison) compile(fd protoreflect.FieldDescriptor, written literal) error {
	value := written.text()
	var err error
	switch fd.Kind() {
	case protoreflect.StringKind:
		c.texts(written.parts)
		c.test = c.text(written)
	case protoreflect.BoolKind:
		var want bool
		if want, err = strconv.ParseBool(strings.ToLower(value)); err != nil || !c.unordered() {
			if c.mayBeUnknown() {
				return fmt.Errorf("%s is true, false or unknown: compare it with = and one of them, not %s %s",
					c.path, c.op, value)
			}
			return fmt.Errorf("%s is true or false: compare it with = true or = false, not %s %s", c.path, c.op, value)
		}
		c.demand(strconv.FormatBool(want))
		c.test = func(v protoreflect.Value) bool { return v.Bool() == want }
	case protoreflect.EnumKind:
		return c.enum(fd.Enum(), value)
	case protoreflect.Int32Kind, protoreflect.Int64Kind:
		var want int64
		if want, err = strconv.ParseInt(value, 10, 64); err != nil {
			return fmt.Errorf("%s is a number, %q is not", c.path, value)
		}
		c.test = func(v protoreflect.Value) bool { return ordered(c.op, cmp.Compare(v.Int(), want)) }
	case protoreflect.Uint32Kind, protoreflect.Uint64Kind:
		var want uint64
		if want, err = strconv.ParseUint(value, 10, 64); err != nil {
			return fmt.Errorf("%s is a number from 0 up, %q is not", c.path, value)
		}
		c.test = func(v protoreflect.Value) bool { return ordered(c.op, cmp.Compare(v.Uint(), want)) }
	case protoreflect.MessageKind:
		return c.message(fd.Message(), value)
	default:
		return fmt.Errorf("%s cannot be compared", c.path)
	}
	return nil
}

func (c *comparison) unordered() bool {
	return c.op == opEqual || c.op == opNotEqual || c.op == opHas
}

func (c *comparison) text(written literal) func(protoreflect.Value) bool {
	if c.unordered() && len(written.parts) > 1 {
		return func(v protoreflect.Value) bool { return wild(v.String(), written.parts) }
	}
	value := written.text()
	return func(v protoreflect.Value) bool { return ordered(c.op, cmp.Compare(v.String(), value)) }
}

// wild reports whether text contains the parts in order, the first as a prefix and the last
// as a suffix.
func wild(text string, parts []string) bool {
	rest, ok := strings.CutPrefix(text, parts[0])
	if !ok {
		return false
	}
	last := len(parts) - 1
	for _, part := range parts[1:last] {
		if _, rest, ok = strings.Cut(rest, part); !ok {
			return false
		}
	}
	return strings.HasSuffix(rest, parts[last])
}

func (c *comparison) enum(ed protoreflect.EnumDescriptor, value string) error {
	if !c.unordered() {
		return fmt.Errorf("%s has no order: compare it with = or !=", c.path)
	}
	var names []string
	for i := range ed.Values().Len() {
		name, number := string(ed.Values().Get(i).Name()), ed.Values().Get(i).Number()
		if strings.EqualFold(name, value) {
			c.demand(name)
			c.test = func(v protoreflect.Value) bool { return v.Enum() == number }
			return nil
		}
		if number != 0 { // *_UNSPECIFIED
			names = append(names, name)
		}
	}
	return fmt.Errorf("%s cannot be %q: want one of %s", c.path, value, strings.Join(names, ", "))
}

func (c *comparison) message(md protoreflect.MessageDescriptor, value string) error {
	if md.FullName() != timestamp {
		return fmt.Errorf("%s has fields: compare one of them, or ask whether it is set with %s:*", c.path, c.path)
	}
	want, err := time.Parse(time.RFC3339Nano, strings.ToUpper(value))
	if err != nil {
		return fmt.Errorf("%s is a time such as \"2026-01-29T15:10:00Z\", %q is not", c.path, value)
	}
	c.test = func(v protoreflect.Value) bool {
		ts, ok := v.Message().Interface().(*timestamppb.Timestamp)
		return ok && ordered(c.op, ts.AsTime().Compare(want))
	}
	return nil
}

// ordered reports whether a comparison with the given sign satisfies op.
func ordered(op string, sign int) bool {
	switch op {
	case opLess:
		return sign < 0
	case opLessEqual:
		return sign <= 0
	case opGreater:
		return sign > 0
	case opGreaterEqual:
		return sign >= 0
	}
	return sign == 0
}
