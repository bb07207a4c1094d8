// Package machinefield reads where the fields appear that operators declare of a machine: the
// option machine_field of each field of MachineSpec (proto/holdfast/v1/field.proto). No other
// package knows how a field is declared. It must not decide anything or keep state.
package machinefield

import (
	"cmp"
	"iter"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// Field is a field of MachineSpec: a text, or a list of texts.
type Field struct {
	*holdfastv1.MachineField
	desc protoreflect.FieldDescriptor
}

// All returns the fields in the order in which they are shown.
func All() iter.Seq[Field] {
	return func(yield func(Field) bool) {
		all := fields()
		for i := range all.Len() {
			if !yield(declared(all.Get(i))) {
				return
			}
		}
	}
}

// Named returns the field with a name such as "rack", and whether there is one.
func Named(name string) (Field, bool) {
	f := fields().ByName(protoreflect.Name(name))
	if f == nil {
		return Field{}, false
	}
	return declared(f), true
}

// Name returns the name of the field: rack.
func (f Field) Name() string { return string(f.desc.Name()) }

// Path returns the path of the field in a machine: spec.rack.
func (f Field) Path() string { return "spec." + f.Name() }

// Attribute returns the name of the attribute of Terraform.
func (f Field) Attribute() string { return cmp.Or(f.GetAttribute(), f.Name()) }

// List reports whether the field is a list of texts.
func (f Field) List() bool { return f.desc.IsList() }

// Text returns the value of the field. The texts of a list have commas between them.
func (f Field) Text(s *holdfastv1.MachineSpec) string {
	if f.List() {
		return strings.Join(f.Texts(s), ", ")
	}
	return s.ProtoReflect().Get(f.desc).String()
}

// Texts returns the values of a field that is a list.
func (f Field) Texts(s *holdfastv1.MachineSpec) []string {
	list := s.ProtoReflect().Get(f.desc).List()
	all := make([]string, list.Len())
	for i := range all {
		all[i] = list.Get(i).String()
	}
	return all
}

// Set sets the value of a field that is a text.
func (f Field) Set(s *holdfastv1.MachineSpec, value string) {
	s.ProtoReflect().Set(f.desc, protoreflect.ValueOfString(value))
}

// SetTexts sets the values of a field that is a list.
func (f Field) SetTexts(s *holdfastv1.MachineSpec, values []string) {
	list := s.ProtoReflect().NewField(f.desc).List()
	for _, v := range values {
		list.Append(protoreflect.ValueOfString(v))
	}
	s.ProtoReflect().Set(f.desc, protoreflect.ValueOfList(list))
}

// fields returns the fields of MachineSpec.
func fields() protoreflect.FieldDescriptors {
	return (*holdfastv1.MachineSpec)(nil).ProtoReflect().Descriptor().Fields()
}

func declared(f protoreflect.FieldDescriptor) Field {
	o, _ := proto.GetExtension(f.Options(), holdfastv1.E_MachineField).(*holdfastv1.MachineField)
	return Field{o, f}
}
