package difference

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// Change is a different field. An unset value is "".
type Change struct {
	Path     string // as in -o json: spec.rack, labels.env, steps[0].repave.image
	Was, Now string // texts are quoted, lists are in brackets
}

// String formats the change as a line.
func (c Change) String() string {
	return fmt.Sprintf("%s: %s → %s", c.Path, cmp.Or(c.Was, "(none)"), cmp.Or(c.Now, "(none)"))
}

// Between lists the differences in the order of the message's fields. Either message may be
// empty.
func Between(was, now protoreflect.Message) []Change {
	return messages("", was, now)
}

func messages(path string, was, now protoreflect.Message) []Change {
	var all []Change
	fields := now.Descriptor().Fields()
	for i := range fields.Len() {
		f := fields.Get(i)
		if !was.Has(f) && !now.Has(f) {
			continue
		}
		at := path + string(f.Name())
		switch a, b := was.Get(f), now.Get(f); {
		case f.IsMap():
			all = append(all, mapValues(at, f, a.Map(), b.Map())...)
		case f.IsList() && f.Message() != nil:
			all = append(all, lists(at, a.List(), b.List())...)
		case f.IsList():
			all = append(all, values(at, list(f, a.List()), list(f, b.List()))...)
		case f.Message() != nil:
			below := messages(at+".", a.Message(), b.Message())
			if len(below) == 0 && was.Has(f) != now.Has(f) { // its presence is the value, such as a step's kind
				below = values(at, present(was.Has(f)), present(now.Has(f)))
			}
			all = append(all, below...)
		default:
			all = append(all, values(at, single(f, was), single(f, now))...)
		}
	}
	return all
}

// lists compares lists of messages by position.
func lists(path string, was, now protoreflect.List) []Change {
	var all []Change
	for i := range max(was.Len(), now.Len()) {
		at := fmt.Sprintf("%s[%d]", path, i)
		var a, b protoreflect.Message
		switch {
		case i >= was.Len():
			b = now.Get(i).Message()
			a = b.Type().Zero()
		case i >= now.Len():
			a = was.Get(i).Message()
			b = a.Type().Zero()
		default:
			a, b = was.Get(i).Message(), now.Get(i).Message()
		}
		below := messages(at+".", a, b)
		if len(below) == 0 && (i >= was.Len() || i >= now.Len()) {
			below = values(at, present(i < was.Len()), present(i < now.Len()))
		}
		all = append(all, below...)
	}
	return all
}

func mapValues(path string, f protoreflect.FieldDescriptor, was, now protoreflect.Map) []Change {
	keys := map[string]protoreflect.MapKey{}
	add := func(k protoreflect.MapKey, _ protoreflect.Value) bool {
		keys[k.String()] = k
		return true
	}
	was.Range(add)
	now.Range(add)
	text := func(m protoreflect.Map, k protoreflect.MapKey) string {
		if !m.Has(k) {
			return ""
		}
		return scalar(f.MapValue(), m.Get(k))
	}
	var all []Change
	for _, name := range slices.Sorted(maps.Keys(keys)) {
		all = append(all, values(path+"."+name, text(was, keys[name]), text(now, keys[name]))...)
	}
	return all
}

func values(path, was, now string) []Change {
	if was == now {
		return nil
	}
	return []Change{{Path: path, Was: was, Now: now}}
}

func present(is bool) string {
	if is {
		return "{}"
	}
	return ""
}

func single(f protoreflect.FieldDescriptor, m protoreflect.Message) string {
	if !m.Has(f) {
		return ""
	}
	return scalar(f, m.Get(f))
}

func list(f protoreflect.FieldDescriptor, l protoreflect.List) string {
	if l.Len() == 0 {
		return ""
	}
	var all []string
	for i := range l.Len() {
		all = append(all, scalar(f, l.Get(i)))
	}
	return "[" + strings.Join(all, ", ") + "]"
}

func scalar(f protoreflect.FieldDescriptor, v protoreflect.Value) string {
	switch f.Kind() {
	case protoreflect.StringKind:
		return strconv.Quote(v.String())
	case protoreflect.BytesKind:
		return fmt.Sprintf("%x", v.Bytes())
	case protoreflect.EnumKind:
		if e := f.Enum().Values().ByNumber(v.Enum()); e != nil {
			return string(e.Name())
		}
	}
	return v.String()
}
