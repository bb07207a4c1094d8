package request

import (
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// WithoutUnknown removes the fields that this build does not know from a client's message
// that becomes part of a command. The FSM would treat them as those of a newer version, and
// every peer would stop.
func WithoutUnknown[M proto.Message](m M) M {
	visit(m.ProtoReflect(), func(m protoreflect.Message) bool {
		if len(m.GetUnknown()) > 0 {
			m.SetUnknown(nil)
		}
		return true
	})
	return m
}

// HasUnknown reports whether a message has a field unknown to this build, and returns the
// name of the message with that field, which may be one inside of it.
func HasUnknown(m protoreflect.Message) (name string, found bool) {
	visit(m, func(m protoreflect.Message) bool {
		if len(m.GetUnknown()) > 0 {
			name, found = string(m.Descriptor().Name()), true
		}
		return !found
	})
	return name, found
}

// visit calls f for a message and all messages in it, until f returns false.
func visit(m protoreflect.Message, f func(protoreflect.Message) bool) bool {
	if !f(m) {
		return false
	}
	more := true
	m.Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case fd.IsMap():
			if fd.MapValue().Message() != nil {
				v.Map().Range(func(_ protoreflect.MapKey, v protoreflect.Value) bool {
					more = visit(v.Message(), f)
					return more
				})
			}
		case fd.Message() == nil:
		case fd.IsList():
			for i := 0; more && i < v.List().Len(); i++ {
				more = visit(v.List().Get(i).Message(), f)
			}
		default:
			more = visit(v.Message(), f)
		}
		return more
	})
	return more
}
