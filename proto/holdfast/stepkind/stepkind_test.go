package stepkind_test

import (
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/holdfast-metal/holdfast/proto/holdfast/stepkind"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// TestEveryKindIsDeclared fails if a kind of step has no option step_kind, or an incomplete one.
func TestEveryKindIsDeclared(t *testing.T) {
	for _, name := range stepkind.Names() {
		k := stepkind.Named(name)
		if k.GetEffect() == "" || len(k.GetNeeds()) == 0 || len(k.GetChecks()) == 0 {
			t.Errorf("kind %s: got option step_kind %v, want one with effect, needs and checks", name, k)
		}
		if k.GetTimeoutSeconds() == 0 && name != "ssh" {
			t.Errorf("kind %s: got no timeout_seconds, want one", name)
		}
		if k.GetConcurrent() && !k.GetKeepsPhase() {
			t.Errorf("kind %s is concurrent, but changes the phase of the machine", name)
		}
		if k.GetDestroys() && !k.GetKeepsPhase() && (k.GetUnbraked() || !k.GetRamped()) {
			t.Errorf("kind %s destroys data of the host, but no brake or ramp limits its plans", name)
		}
	}
}

// TestEveryDeclarationIsOfAKind fails if a message has the option step_kind, but is not in
// Step.kind.
func TestEveryDeclarationIsOfAKind(t *testing.T) {
	of := map[protoreflect.FullName]bool{}
	for _, name := range stepkind.Names() {
		settings := settingsOf(name).ProtoReflect().Descriptor().FullName()
		if of[settings] {
			t.Errorf("message %s configures two kinds, want one", settings)
		}
		of[settings] = true
	}
	protoregistry.GlobalFiles.RangeFilesByPackage("holdfast.v1", func(f protoreflect.FileDescriptor) bool {
		for i := range f.Messages().Len() {
			m := f.Messages().Get(i)
			if proto.HasExtension(m.Options(), holdfastv1.E_StepKind) && !of[m.FullName()] {
				t.Errorf("message %s has the option step_kind, but is not in Step.kind", m.FullName())
			}
		}
		return true
	})
}

// settingsOf returns the empty settings of a kind: the only field that a new step has.
func settingsOf(kind string) (settings proto.Message) {
	stepkind.New(kind).ProtoReflect().Range(func(_ protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		settings = v.Message().Interface()
		return true
	})
	return settings
}

func TestKindOfStep(t *testing.T) {
	for _, name := range stepkind.Names() {
		s := stepkind.New(name)
		if got := stepkind.Name(s); got != name {
			t.Errorf("name of New(%q): got %q", name, got)
		}
		if !proto.Equal(stepkind.Of(s), stepkind.Named(name)) {
			t.Errorf("kind %s: got %v by the step, %v by its name", name, stepkind.Of(s), stepkind.Named(name))
		}
		if got := stepkind.With(settingsOf(name)); !proto.Equal(got, s) {
			t.Errorf("With(settings of %s): got %v, want %v", name, got, s)
		}
	}
}

func TestNoKind(t *testing.T) {
	for _, s := range []*holdfastv1.Step{nil, {}} {
		if stepkind.Of(s) != nil || stepkind.Name(s) != "" {
			t.Errorf("step %v: got kind %q, want none", s, stepkind.Name(s))
		}
	}
	if stepkind.Named("no-such-kind") != nil || stepkind.New("no-such-kind") != nil {
		t.Error("no-such-kind: got a kind, want none")
	}
	if got := stepkind.With(&holdfastv1.Plan{}); got != nil {
		t.Errorf("With(a plan): got %v, want nil", got)
	}
}
