package filter

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/holdfast-metal/holdfast/internal/nearest"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// Schema describes which fields of a message can be used in a filter. It must not change
// while in use.
type Schema struct {
	Message protoreflect.MessageDescriptor
	// Aliases are short names of paths, such as "phase" for "status.phase".
	Aliases map[string]string
	// Keyed are repeated messages whose elements are addressed by one of their fields. For
	// example, conditions.Reachable is the status of that condition.
	Keyed map[string]Keyed
	// Hidden are paths that cannot be used in a filter.
	Hidden []string
	// Fixed are paths whose values never change during a message's life.
	Fixed []string
	// Canonical converts a value to the form in which the values of a path are stored.
	Canonical map[string]func(string) string
}

// Keyed describes how elements of a repeated message are addressed.
type Keyed struct {
	// Key and Value are fields of the element.
	Key, Value string
	// Unknown is an optional field. If it is true, the only value of the element is "unknown".
	Unknown string
	// Names are the values that Key can have.
	Names []string
}

// field is a resolved path.
type field struct {
	path     string
	steps    []step
	repeated bool // the path contains a repeated field
	fixed    bool
	fold     func(string) string // may be nil
}

// step selects a field of a message.
type step struct {
	fd  protoreflect.FieldDescriptor
	key *string // selects an entry, if the field is a map
	// Of a keyed field, the step selects the element whose by field equals name.
	by      protoreflect.FieldDescriptor
	name    string
	unknown protoreflect.FieldDescriptor // true if the element has no known value; may be nil
}

// mayBeUnknown reports whether the value at the path can be unknown.
func (f *field) mayBeUnknown() bool {
	return len(f.steps) > 1 && f.steps[len(f.steps)-2].unknown != nil
}

func (f *field) leaf() step { return f.steps[len(f.steps)-1] }

// mostNames is the number of names in an error.
const mostNames = 10

// noField returns the error for an unknown field, with a suggestion. It lists the short names and
// top-level fields only if there is none: all paths would fill a screen.
func (s *Schema) noField(written string) error {
	if guess := nearest.Of(written, s.Names()); guess != "" {
		return fmt.Errorf("there is no field %q: did you mean %s?", written, guess)
	}
	names := slices.Sorted(maps.Keys(s.Aliases))
	label := ""
	for i := range s.Message.Fields().Len() {
		f := s.Message.Fields().Get(i)
		if name := f.TextName(); !slices.Contains(names, name) {
			names = append(names, name)
		}
		if f.IsMap() && f.TextName() == "labels" && !strings.Contains(written, ".") {
			label = fmt.Sprintf(": did you mean labels.%s?: see: holdfast explain "+
				strings.ToLower(string(s.Message.Name())), written)
		}
	}
	if label != "" {
		return fmt.Errorf("there is no field %q%s", written, label)
	}
	more := ""
	if len(names) > mostNames {
		names, more = names[:mostNames], ", …: see: holdfast explain "+strings.ToLower(string(s.Message.Name()))
	}
	return fmt.Errorf("there is no field %q; want one of: %s%s", written, strings.Join(names, ", "), more)
}

// field resolves the segments of a path. Its error names the path and lists the valid ones.
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
			return nil, fmt.Errorf("%s has no fields: there is no path %q", f.path, written)
		}
		fd := lookup(msg, segments[0])
		if fd == nil {
			return nil, s.noField(written)
		}
		names, segments = append(names, fd.TextName()), segments[1:]
		f.path, msg = strings.Join(names, "."), fd.Message()
		st := step{fd: fd}
		keyed, isKeyed := s.Keyed[f.path]
		switch {
		case fd.IsMap() && fd.MapKey().Kind() != protoreflect.StringKind:
			return nil, fmt.Errorf("%s has keys that are not text: it cannot be used in a filter", f.path)
		case fd.IsMap():
			msg = fd.MapValue().Message()
			if len(segments) > 0 { // a key may contain dots
				key := strings.Join(segments, ".")
				st.key, segments = &key, nil
			}
		case isKeyed && len(segments) > 0 && lookup(msg, segments[0]) == nil:
			i := slices.IndexFunc(keyed.Names, func(n string) bool { return strings.EqualFold(n, segments[0]) })
			if i < 0 {
				return nil, fmt.Errorf("there is no %q in %s; known are: %s",
					segments[0], f.path, strings.Join(keyed.Names, ", "))
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
			return nil, fmt.Errorf("field %q is computed on read: it cannot be used in a filter", written)
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

// Names lists the names to show to people: aliases first, then paths.
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

// walk visits all paths that contain no repeated message.
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

// EventSchema returns the schema of filters of events. All fields are fixed, because events never
// change.
func EventSchema() *Schema {
	return &Schema{
		Message: (*holdfastv1.Event)(nil).ProtoReflect().Descriptor(),
		Aliases: map[string]string{
			"facet":    "change.facet",
			"run_id":   "run.run_id",
			"plan_id":  "run.plan_id",
			"run_type": "run.type",
		},
		Fixed: []string{"cursor", "index", "at", "type", "machine_id", "change", "run", "service"},
	}
}

// CompileEvent parses a filter of events. Its error is an *Error.
func CompileEvent(text string) (*Filter, error) { return Compile(EventSchema(), text) }
