package stepkind

import (
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// Of returns the declaration of the kind of a step, or nil if the step has none. The getters of nil
// return zero values.
func Of(s *holdfastv1.Step) *holdfastv1.StepKind { return declared(chosen(s)) }

// Named returns the declaration of a kind by its name, or nil if there is none.
func Named(name string) *holdfastv1.StepKind {
	return declared(kinds().ByName(protoreflect.Name(name)))
}

// Name returns the name of the kind of a step, as run status and filters show it, or "".
func Name(s *holdfastv1.Step) string {
	if f := chosen(s); f != nil {
		return string(f.Name())
	}
	return ""
}

// Names returns the names of all kinds, in the order of their declaration.
func Names() []string {
	names := make([]string, kinds().Len())
	for i := range names {
		names[i] = string(kinds().Get(i).Name())
	}
	return names
}

// New returns a step of a kind by its name, without settings, or nil if there is no such kind.
func New(name string) *holdfastv1.Step {
	f := kinds().ByName(protoreflect.Name(name))
	if f == nil {
		return nil
	}
	s := &holdfastv1.Step{}
	s.ProtoReflect().Set(f, s.ProtoReflect().NewField(f))
	return s
}

// With returns a step of the kind that a message configures, or nil if there is no such kind.
func With(settings proto.Message) *holdfastv1.Step {
	m := settings.ProtoReflect()
	for i := range kinds().Len() {
		if f := kinds().Get(i); f.Message().FullName() == m.Descriptor().FullName() {
			s := &holdfastv1.Step{}
			s.ProtoReflect().Set(f, protoreflect.ValueOfMessage(m))
			return s
		}
	}
	return nil
}

// kinds returns the fields of Step.kind.
func kinds() protoreflect.FieldDescriptors {
	return (*holdfastv1.Step)(nil).ProtoReflect().Descriptor().Oneofs().ByName("kind").Fields()
}

// chosen returns the field of Step.kind that a step has, or nil.
func chosen(s *holdfastv1.Step) protoreflect.FieldDescriptor {
	m := s.ProtoReflect()
	return m.WhichOneof(m.Descriptor().Oneofs().ByName("kind"))
}

func declared(f protoreflect.FieldDescriptor) *holdfastv1.StepKind {
	if f == nil {
		return nil
	}
	k, _ := proto.GetExtension(f.Message().Options(), holdfastv1.E_StepKind).(*holdfastv1.StepKind)
	return k
}
