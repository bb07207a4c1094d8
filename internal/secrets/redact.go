package secrets

import (
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// Sensitive reports whether a field is marked (holdfast.v1.sensitive).
func Sensitive(f protoreflect.FieldDescriptor) bool {
	o, ok := f.Options().(*descriptorpb.FieldOptions)
	if !ok || o == nil {
		return false
	}
	marked, _ := proto.GetExtension(o, holdfastv1.E_Sensitive).(bool)
	return marked
}

// Redact returns a copy of a message for logs and display. Text fields marked
// (holdfast.v1.sensitive) are replaced by Redacted, and other marked fields are cleared.
// Unknown fields are removed, because they may be sensitive.
func Redact[M proto.Message](m M) M {
	c := proto.CloneOf(m)
	redact(c.ProtoReflect())
	return c
}

func redact(m protoreflect.Message) {
	if !m.IsValid() {
		return
	}
	m.SetUnknown(nil)
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case Sensitive(f):
			hide(m, f, v)
		case f.IsMap():
			if f.MapValue().Message() != nil {
				v.Map().Range(func(_ protoreflect.MapKey, v protoreflect.Value) bool {
					redact(v.Message())
					return true
				})
			}
		case f.Message() == nil:
		case f.IsList():
			for i := range v.List().Len() {
				redact(v.List().Get(i).Message())
			}
		default:
			redact(v.Message())
		}
		return true
	})
}

// hide replaces the text of a field, or the texts in a map, by Redacted. Other fields are
// cleared.
func hide(m protoreflect.Message, f protoreflect.FieldDescriptor, v protoreflect.Value) {
	hidden := protoreflect.ValueOfString(Redacted)
	switch {
	case f.IsMap() && f.MapValue().Kind() == protoreflect.StringKind:
		v.Map().Range(func(key protoreflect.MapKey, _ protoreflect.Value) bool {
			v.Map().Set(key, hidden)
			return true
		})
	case !f.IsMap() && !f.IsList() && f.Kind() == protoreflect.StringKind:
		m.Set(f, hidden)
	default:
		m.Clear(f)
	}
}
