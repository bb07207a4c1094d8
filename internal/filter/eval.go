package filter

import "google.golang.org/protobuf/reflect/protoreflect"

// eval evaluates whether any value at the path passes the test. A missing map entry,
// condition or time never passes, so a != b always equals NOT a = b.
func (c *comparison) eval(m protoreflect.Message, later bool) truth {
	if later && !c.field.fixed {
		return maybe
	}
	if c.some(m, c.steps) != (c.op == opNotEqual) {
		return yes
	}
	return no
}

func (c *comparison) every(f func(*comparison) bool) bool { return f(c) }

func (c *comparison) pinned(path string) (string, bool) {
	if c.exact == "" || c.path != path || len(c.steps) != 1 {
		return "", false
	}
	return c.exact, true
}

func (c *comparison) some(m protoreflect.Message, steps []step) bool {
	s, rest := steps[0], steps[1:]
	if len(rest) == 0 {
		return c.leaf(m, s)
	}
	if !s.fd.IsList() {
		return c.some(m.Get(s.fd).Message(), rest)
	}
	list := m.Get(s.fd).List()
	for i := range list.Len() {
		element := list.Get(i).Message()
		if s.by != nil && element.Get(s.by).String() != s.name ||
			s.unknown != nil && !c.any && element.Get(s.unknown).Bool() != c.lost {
			continue
		}
		if c.some(element, rest) {
			return true
		}
	}
	return false
}

func (c *comparison) leaf(m protoreflect.Message, s step) bool {
	v := m.Get(s.fd)
	switch {
	case s.key != nil:
		entry := v.Map().Get(protoreflect.ValueOfString(*s.key).MapKey())
		return entry.IsValid() && c.test(entry)
	case s.fd.IsMap():
		return c.test(v)
	case s.fd.IsList():
		for i := range v.List().Len() {
			if c.test(v.List().Get(i)) {
				return true
			}
		}
		return false
	case s.fd.Message() != nil || c.isSet:
		return m.Has(s.fd) && c.test(v)
	}
	return c.test(v)
}
