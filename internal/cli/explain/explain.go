package explain

import (
	_ "embed" // for comments.txt
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// comments has a line for each element that has a comment: its full name, a tab, the comment.
//
//go:embed comments.txt
var comments string

// Comment returns the .proto comment of a message, field, enum or value, on one line; "" if
// there is none.
func Comment(d protoreflect.Descriptor) string {
	_, rest, ok := strings.Cut("\n"+comments, "\n"+string(d.FullName())+"\t")
	if !ok {
		return ""
	}
	text, _, _ := strings.Cut(rest, "\n")
	return text
}

// Type returns the type of a field in user notation: string, []Condition, map[string]string,
// time.
func Type(fd protoreflect.FieldDescriptor) string {
	switch {
	case fd.IsMap():
		return "map[" + single(fd.MapKey()) + "]" + single(fd.MapValue())
	case fd.IsList():
		return "[]" + single(fd)
	}
	return single(fd)
}

func single(fd protoreflect.FieldDescriptor) string {
	switch {
	case fd.Enum() != nil:
		if fd.Enum().Name() == "Value" { // the message is only the scope of its values: Role.Value
			return string(fd.Enum().Parent().Name())
		}
		return string(fd.Enum().Name())
	case fd.Message() == nil:
		return fd.Kind().String()
	}
	switch name := fd.Message().FullName(); name {
	case "google.protobuf.Timestamp":
		return "time"
	case "google.protobuf.Duration":
		return "duration"
	default:
		return string(name.Name())
	}
}

// Values lists the values of an enum field, without the unspecified one.
func Values(fd protoreflect.FieldDescriptor) []protoreflect.EnumValueDescriptor {
	if fd.Enum() == nil {
		return nil
	}
	var all []protoreflect.EnumValueDescriptor
	for i := range fd.Enum().Values().Len() {
		if v := fd.Enum().Values().Get(i); !strings.HasSuffix(string(v.Name()), "_UNSPECIFIED") {
			all = append(all, v)
		}
	}
	return all
}
