package step

import (
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-metal/holdfast/proto/holdfast/stepkind"
	"github.com/holdfast-metal/holdfast/providers"
)

type incapable struct{}

func (incapable) Kind() string { return "incapable" }

// TestEveryKindHasAnAction fails if a kind of step has no action, if an action is of no kind, or if
// an action needs a capability that its kind does not declare.
func TestEveryKindHasAnAction(t *testing.T) {
	for _, name := range stepkind.Names() {
		a := &Attempt{Kind: name, Step: stepkind.New(name), Provider: incapable{}}
		_, err := a.Choose()
		lacks := func(c providers.Capability) bool {
			return strings.HasSuffix(err.Error(), "provider incapable lacks "+string(c))
		}
		if err == nil || !slices.ContainsFunc(providers.Needs(a.Step), lacks) {
			t.Errorf("kind %s, provider without capabilities: got error %v, want one that names one of %v", name, err,
				providers.Needs(a.Step))
		}
	}
	for name := range actions() {
		if stepkind.Named(name) == nil {
			t.Errorf("action %s is of no kind", name)
		}
	}
}
