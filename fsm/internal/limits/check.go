package limits

import (
	"fmt"
	"maps"
	"slices"
	"sync"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/holdfast-metal/holdfast/fsm/internal/refusal"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// shape is the part of a message type that leads to repeated fields and maps.
type shape struct{ fields []field }

type field struct {
	fd    protoreflect.FieldDescriptor
	most  int    // elements; of a repeated field or map
	inner *shape // of the message or the elements; nil if nothing in them is repeated
}

// shapes returns the shapes of all message types in a command.
var shapes = sync.OnceValue(func() map[protoreflect.FullName]*shape {
	known := map[protoreflect.FullName]*shape{}
	shapeOf((&internalv1.Command{}).ProtoReflect().Descriptor(), declared(), known)
	return known
})

// shapeOf returns the shape of a message type, and adds it to known. It is nil if the type has no
// repeated field.
func shapeOf(
	md protoreflect.MessageDescriptor, limits map[protoreflect.FullName]int, known map[protoreflect.FullName]*shape,
) *shape {
	if of, ok := known[md.FullName()]; ok {
		return of
	}
	known[md.FullName()] = nil // no message of a command contains itself
	var of *shape
	for i := range md.Fields().Len() {
		fd := md.Fields().Get(i)
		f := field{fd: fd, most: limits[fd.FullName()]}
		if fd.Message() != nil && !fd.IsMap() {
			f.inner = shapeOf(fd.Message(), limits, known)
		}
		if fd.IsList() || fd.IsMap() || f.inner != nil {
			if of == nil {
				of = &shape{}
			}
			of.fields = append(of.fields, f)
		}
	}
	known[md.FullName()] = of
	return of
}

// Violations returns the repeated fields and maps of a message of a command that have too many
// elements, in the order of their declaration. The prefix is that of their paths, such as
// "machine.". A field without a declared limit must be empty.
func Violations(prefix string, m proto.Message) []refusal.FieldViolation {
	bad := refusal.Violations{Prefix: prefix}
	r := m.ProtoReflect()
	if s := shapes()[r.Descriptor().FullName()]; s.exceeded(r) {
		s.report(r, "", &bad)
	}
	return bad.Fields
}

// exceeded reports whether a message has too many elements somewhere.
func (s *shape) exceeded(m protoreflect.Message) bool {
	if s == nil {
		return false
	}
	for _, f := range s.fields {
		if !m.Has(f.fd) {
			continue
		}
		switch v := m.Get(f.fd); {
		case f.fd.IsMap():
			if v.Map().Len() > f.most {
				return true
			}
		case f.fd.IsList():
			list := v.List()
			if list.Len() > f.most {
				return true
			}
			for i := 0; f.inner != nil && i < list.Len(); i++ {
				if f.inner.exceeded(list.Get(i).Message()) {
					return true
				}
			}
		default:
			if f.inner.exceeded(v.Message()) {
				return true
			}
		}
	}
	return false
}

// report adds the fields that have too many elements.
func (s *shape) report(m protoreflect.Message, path string, bad *refusal.Violations) {
	if s == nil {
		return
	}
	for _, f := range s.fields {
		at := path + f.fd.TextName()
		switch v := m.Get(f.fd); {
		case !m.Has(f.fd):
		case f.fd.IsMap():
			tooMany(bad, at, v.Map().Len(), f.most)
		case f.fd.IsList():
			list := v.List()
			tooMany(bad, at, list.Len(), f.most)
			for i := 0; i < min(list.Len(), f.most); i++ {
				if f.inner != nil {
					f.inner.report(list.Get(i).Message(), fmt.Sprintf("%s[%d].", at, i), bad)
				}
			}
		default:
			f.inner.report(v.Message(), at+".", bad)
		}
	}
}

func tooMany(bad *refusal.Violations, path string, n, most int) {
	if n > most {
		bad.Add(path, "has %d elements, at most %d are allowed", n, most)
	}
}

// Most returns the limit of a repeated field or map, and whether one is declared.
func Most(field protoreflect.FullName) (int, bool) {
	most, ok := declared()[field]
	return most, ok
}

// Declared returns the fields that have a limit.
func Declared() []protoreflect.FullName { return slices.Sorted(maps.Keys(declared())) }
