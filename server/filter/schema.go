package filter

import (
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/holdfast-metal/holdfast/internal/nearest"
)

// Schema says what of a message can be filtered by. It must not change once it is used.
type Schema struct {
	Message protoreflect.MessageDescriptor
	// Aliases are short names of paths, e.g. "phase" of "status.phase".
	Aliases map[string]string
	// Keyed are repeated messages that are addressed by the value of one of their fields, e.g.
	// status.conditions, so that conditions.Reachable is the status of that condition.
	Keyed map[string]Keyed
	// Hidden are paths that cannot be filtered by.
	Hidden []string
	// Fixed are paths that never change during a message's life.
	Fixed []string
	// Canonical brings a value into the form in which a path's values are stored.
	Canonical map[string]func(string) string
}

// Keyed says how elements of a repeated message are addressed.
type Keyed struct {
	Key, Value string   // fields of the element
	Unknown    string   // optional: a field that is true when Value is not known; it is then "unknown", and no other value
	Names      []string // the values of Key that there are
}

// field is a resolved path.
type field struct {
	path     string
	steps    []step
	repeated bool // some element of a repeated field is meant
	fixed    bool
	fold     func(string) string // may be nil
}

// step goes from a message to one of its fields.
type step struct {
	fd  protoreflect.FieldDescriptor
	key *string // of a map: this entry
	// of a keyed field: the element whose by is name
	by      protoreflect.FieldDescriptor
	name    string
	unknown protoreflect.FieldDescriptor // says that the element has no known value; may be nil
}

// mayBeUnknown reports whether the path leads to a value that an element may not know.
func (f *field) mayBeUnknown() bool {
	return len(f.steps) > 1 && f.steps[len(f.steps)-2].unknown != nil
}

func (f *field) leaf() step { return f.steps[len(f.steps)-1] }

// field resolves the segments of a path. Its error names the path and lists those that there are.
func (s *Schema) field(segments []string) (*field, error) {
	written := strings.Join(segments, ".")
	if alias, ok := s.Aliases[segments[0]]; ok {
		segments = append(strings.Split(alias, "."), segments[1:]...)
	}
	f := &field{}
	msg := s.Message
	var names []string
	for len(segments) > 0 {
		if msg == nil {
			return nil, fmt.Errorf("%s has no fields in it, %q leads nowhere", f.path, written)
		}
		fd := lookup(msg, segments[0])
		if fd == nil {
			guess := nearest.Of(written, s.Names())
			if guess != "" {
				guess = ": did you mean " + guess + "?"
			}
			return nil, fmt.Errorf("there is no field %q%s; known are: %s", written, guess, strings.Join(s.Names(), ", "))
		}
		names, segments = append(names, fd.TextName()), segments[1:]
		f.path, msg = strings.Join(names, "."), fd.Message()
		st := step{fd: fd}
		keyed, isKeyed := s.Keyed[f.path]
		switch {
		case fd.IsMap() && fd.MapKey().Kind() != protoreflect.StringKind:
			return nil, fmt.Errorf("%s has keys that are not text and cannot be filtered by", f.path)
		case fd.IsMap():
			msg = fd.MapValue().Message()
			if len(segments) > 0 { // a key may have dots in it
				key := strings.Join(segments, ".")
				st.key, segments = &key, nil
			}
		case isKeyed && len(segments) > 0 && lookup(msg, segments[0]) == nil:
			i := slices.IndexFunc(keyed.Names, func(n string) bool { return strings.EqualFold(n, segments[0]) })
			if i < 0 {
				return nil, fmt.Errorf("there is no %q in %s; known are: %s", segments[0], f.path, strings.Join(keyed.Names, ", "))
			}
			st.by, st.name = lookup(msg, keyed.Key), keyed.Names[i]
			if keyed.Unknown != "" {
				st.unknown = lookup(msg, keyed.Unknown)
			}
			segments[0] = keyed.Value
		case fd.IsList():
			f.repeated = true
		}
		if slices.Contains(s.Hidden, f.path) {
			return nil, fmt.Errorf("field %q is computed when it is read and cannot be filtered by", written)
		}
		f.fixed = f.fixed || slices.Contains(s.Fixed, f.path)
		f.steps = append(f.steps, st)
	}
	f.fold = s.Canonical[f.path]
	return f, nil
}

func lookup(msg protoreflect.MessageDescriptor, name string) protoreflect.FieldDescriptor {
	if fd := msg.Fields().ByTextName(name); fd != nil {
		return fd
	}
	return msg.Fields().ByJSONName(name)
}

// Names lists what can be filtered by, for people: short names first, then paths.
func (s *Schema) Names() []string {
	var names []string
	for alias := range s.Aliases {
		names = append(names, s.shown(alias, s.Aliases[alias]))
	}
	slices.Sort(names)
	s.walk(s.Message, "", func(path string) { names = append(names, s.shown(path, path)) })
	return names
}

func (s *Schema) shown(name, path string) string {
	if _, ok := s.Keyed[path]; ok {
		return name + ".<" + s.Keyed[path].Key + ">"
	}
	f, err := s.field(strings.Split(path, "."))
	if err == nil && f.leaf().fd.IsMap() {
		return name + ".<key>"
	}
	return name
}

// walk visits the paths that do not lead through repeated messages.
func (s *Schema) walk(msg protoreflect.MessageDescriptor, prefix string, visit func(path string)) {
	for i := range msg.Fields().Len() {
		fd := msg.Fields().Get(i)
		path := prefix + fd.TextName()
		switch {
		case slices.Contains(s.Hidden, path):
		case fd.Message() != nil && !fd.IsList() && !fd.IsMap() && fd.Message().FullName() != timestamp:
			s.walk(fd.Message(), path+".", visit)
		default:
			visit(path)
		}
	}
}
