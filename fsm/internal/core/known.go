package core

import (
	"fmt"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// Known returns an error if m, or a message in it, has a field or enum value that is not
// declared.
func Known(m protoreflect.Message) error {
	if len(m.GetUnknown()) > 0 {
		return fmt.Errorf("unknown field in %s", m.Descriptor().FullName())
	}
	var err error
	m.Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case fd.IsMap():
			if fd.MapValue().Message() != nil {
				v.Map().Range(func(_ protoreflect.MapKey, v protoreflect.Value) bool {
					err = Known(v.Message())
					return err == nil
				})
			}
		case fd.IsList():
			if fd.Message() == nil && fd.Enum() == nil {
				break
			}
			for i := range v.List().Len() {
				if err = knownValue(fd, v.List().Get(i)); err != nil {
					break
				}
			}
		default:
			err = knownValue(fd, v)
		}
		return err == nil
	})
	return err
}

func knownValue(fd protoreflect.FieldDescriptor, v protoreflect.Value) error {
	if fd.Message() != nil {
		return Known(v.Message())
	}
	if e := fd.Enum(); e != nil && e.Values().ByNumber(v.Enum()) == nil {
		return fmt.Errorf("unknown value %d of %s", v.Enum(), e.FullName())
	}
	return nil
}
