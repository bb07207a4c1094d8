package fields

import (
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/holdfast-metal/holdfast/internal/nearest"
)

// Path leads to a value in messages of one type: fields, and a key at the end if the last field
// is a map.
type Path struct {
	steps []protoreflect.FieldDescriptor
	key   string
}

// depth is the maximum depth at which a field is found by its name alone.
const depth = 3

// Parse finds a field by its path from the top, in names of the API or of JSON, or by its name
// alone if it is unique.
func Parse(md protoreflect.MessageDescriptor, text string) (Path, error) {
	head, rest, _ := strings.Cut(strings.TrimPrefix(text, "."), ".")
	if ByName(md, head) == nil {
		switch found := search(md, head, depth); len(found) {
		case 0:
			return Path{}, unknown(md, head)
		case 1:
			text = strings.TrimSuffix(found[0]+"."+rest, ".")
		default:
			return Path{}, fmt.Errorf("%q could be any of %s: give the whole path", head, strings.Join(found, ", "))
		}
	}
	var p Path
	parts := strings.Split(strings.TrimPrefix(text, "."), ".")
	for i, name := range parts {
		fd := ByName(md, name)
		if fd == nil {
			return Path{}, unknown(md, name)
		}
		p.steps = append(p.steps, fd)
		switch {
		case fd.IsMap():
			p.key = strings.Join(parts[i+1:], ".") // keys have dots
			return p, nil
		case i == len(parts)-1:
			return p, nil
		case fd.IsList() || fd.Message() == nil || isTime(fd.Message()):
			return Path{}, fmt.Errorf("%q has no fields", strings.Join(parts[:i+1], "."))
		}
		md = fd.Message()
	}
	return p, nil
}

// ByName finds a field by its name in the API (created_at) or in JSON (createdAt).
func ByName(md protoreflect.MessageDescriptor, name string) protoreflect.FieldDescriptor {
	if fd := md.Fields().ByName(protoreflect.Name(name)); fd != nil {
		return fd
	}
	return md.Fields().ByJSONName(name)
}

// Field finds a field by its name; the error lists the existing ones.
func Field(md protoreflect.MessageDescriptor, name string) (protoreflect.FieldDescriptor, error) {
	if fd := ByName(md, name); fd != nil {
		return fd, nil
	}
	return nil, unknown(md, name)
}

// search lists the paths of fields with a name, those nearest to the top only.
func search(md protoreflect.MessageDescriptor, name string, depth int) []string {
	if depth == 0 {
		return nil
	}
	var here, below []string
	for i := range md.Fields().Len() {
		fd := md.Fields().Get(i)
		if fd.IsList() || fd.IsMap() || fd.Message() == nil || isTime(fd.Message()) {
			continue
		}
		if inner := ByName(fd.Message(), name); inner != nil {
			here = append(here, fmt.Sprintf("%s.%s", fd.Name(), inner.Name()))
			continue
		}
		for _, path := range search(fd.Message(), name, depth-1) {
			below = append(below, fmt.Sprintf("%s.%s", fd.Name(), path))
		}
	}
	if len(here) > 0 {
		return here
	}
	return below
}

func unknown(md protoreflect.MessageDescriptor, name string) error {
	var names []string
	for i := range md.Fields().Len() {
		names = append(names, string(md.Fields().Get(i).Name()))
	}
	if guess := nearest.Of(name, names); guess != "" {
		return fmt.Errorf("%s has no field %q: did you mean %s?", md.Name(), name, guess)
	}
	slices.Sort(names)
	return fmt.Errorf("%s has no field %q: it has %s", md.Name(), name, strings.Join(names, ", "))
}

func isTime(md protoreflect.MessageDescriptor) bool {
	return md.FullName() == "google.protobuf.Timestamp" || md.FullName() == "google.protobuf.Duration"
}
