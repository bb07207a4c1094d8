package fsm

import (
	"fmt"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// understood returns an error if this build does not know every part of a command. Protobuf
// would ignore a field it does not know, and this peer's state would silently differ from the
// others'.
func understood(c *internalv1.Command) error {
	if l := c.GetFeatureLevel(); l > FeatureLevel {
		return fmt.Errorf("command needs feature level %d, this build has %d", l, FeatureLevel)
	}
	if err := known(c.ProtoReflect()); err != nil {
		return err
	}
	if c.GetOp() == nil {
		return fmt.Errorf("command has no operation that this build knows")
	}
	if l := c.GetRaiseFeatureLevel().GetLevel(); l > FeatureLevel {
		return fmt.Errorf("command raises the feature level to %d, this build has %d", l, FeatureLevel)
	}
	return nil
}

// known returns an error if m, or a message in it, has a field or enum value that is not
// declared.
func known(m protoreflect.Message) error {
	if len(m.GetUnknown()) > 0 {
		return fmt.Errorf("unknown field in %s", m.Descriptor().FullName())
	}
	var err error
	m.Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case fd.IsMap():
			if fd.MapValue().Message() != nil {
				v.Map().Range(func(_ protoreflect.MapKey, v protoreflect.Value) bool {
					err = known(v.Message())
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
		return known(v.Message())
	}
	if e := fd.Enum(); e != nil && e.Values().ByNumber(v.Enum()) == nil {
		return fmt.Errorf("unknown value %d of %s", v.Enum(), e.FullName())
	}
	return nil
}
