package server

import (
	"fmt"
	"strconv"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/holdfast-metal/holdfast/fsm"
)

// maxComment bounds the texts that people add to a change, in bytes.
const maxComment = 1024

func quote(s string) string { return strconv.Quote(s) }

// required refuses an empty field.
func required(field, value string) error {
	if value == "" {
		return invalid(field, "is required")
	}
	return nil
}

// short refuses a comment that is too long to keep for ever.
func short(field, value string) error {
	if len(value) > maxComment {
		return invalid(field, fmt.Sprintf("has %d bytes, at most %d are allowed", len(value), maxComment))
	}
	return nil
}

// violations makes an error of violations; nil when there are none.
func violations(fields []fsm.FieldViolation) error {
	if err := fsm.Invalid(fields); err != nil {
		return err
	}
	return nil // not a nil *fsm.Error
}

// dropUnknown removes the fields that this build does not know from a message of a client. In a command they
// would stop every peer: the FSM takes them for a newer version's.
func dropUnknown(m protoreflect.Message) {
	visit(m, func(m protoreflect.Message) bool {
		if len(m.GetUnknown()) > 0 {
			m.SetUnknown(nil)
		}
		return true
	})
}

// hasUnknown names a message that has a field this build does not know.
func hasUnknown(m protoreflect.Message) (name string, found bool) {
	visit(m, func(m protoreflect.Message) bool {
		if len(m.GetUnknown()) > 0 {
			name, found = string(m.Descriptor().Name()), true
		}
		return !found
	})
	return name, found
}

// visit calls f for a message and all in it, until f says no.
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
