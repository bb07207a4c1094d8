package plans

import (
	"slices"
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/holdfast-metal/holdfast/proto/holdfast/stepkind"
)

// TestEveryKindWithSettingsIsChecked fails if a kind of step has settings without a check, or if a
// check is of no kind.
func TestEveryKindWithSettingsIsChecked(t *testing.T) {
	checks := settingsChecks()
	for _, name := range stepkind.Names() {
		has := false
		stepkind.New(name).ProtoReflect().Range(func(f protoreflect.FieldDescriptor, _ protoreflect.Value) bool {
			has = f.Message().Fields().Len() > 0 // the only field that a new step has
			return true
		})
		if want := checks[name] != nil; has != want {
			t.Errorf("kind %s: has settings: %v, has a check: %v, want the same", name, has, want)
		}
	}
	for name := range checks {
		if !slices.Contains(stepkind.Names(), name) {
			t.Errorf("check %s is of no kind", name)
		}
	}
}
