package fields

import (
	"slices"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// Sortable lists the fields of a message and of the messages in it whose values have an order:
// by name if it is unique, otherwise by path.
func Sortable(md protoreflect.MessageDescriptor) []string {
	var all []string
	walk(md, "", depth, func(path string, fd protoreflect.FieldDescriptor) {
		if fd.IsMap() || fd.IsList() || fd.Message() != nil && !isTime(fd.Message()) {
			return
		}
		name := string(fd.Name())
		if p, err := Parse(md, name); err != nil || p.steps[len(p.steps)-1] != fd {
			name = path
		}
		all = append(all, name)
	})
	slices.Sort(all)
	return slices.Compact(all)
}

// Values lists the values that a filter accepts for a field: the names of an enum without the
// unset one, or true and false. It returns nil for other fields.
func Values(md protoreflect.MessageDescriptor, name string) []string {
	p, err := Parse(md, name)
	if err != nil {
		return nil
	}
	fd := p.steps[len(p.steps)-1]
	switch {
	case fd.IsMap() || fd.IsList():
		return nil
	case fd.Kind() == protoreflect.BoolKind:
		return []string{"true", "false"}
	case fd.Enum() == nil:
		return nil
	}
	var all []string
	for i := range fd.Enum().Values().Len() {
		if v := fd.Enum().Values().Get(i); v.Number() != 0 {
			all = append(all, string(v.Name()))
		}
	}
	return all
}

// walk calls f for each field down to a depth.
func walk(md protoreflect.MessageDescriptor, prefix string, depth int, f func(string, protoreflect.FieldDescriptor)) {
	if depth == 0 {
		return
	}
	for i := range md.Fields().Len() {
		fd := md.Fields().Get(i)
		path := prefix + string(fd.Name())
		f(path, fd)
		if !fd.IsMap() && !fd.IsList() && fd.Message() != nil && !isTime(fd.Message()) {
			walk(fd.Message(), path+".", depth-1, f)
		}
	}
}
