package mutant

import (
	"context"

	"github.com/holdfast-metal/holdfast/test/failpoint"
	"github.com/holdfast-metal/holdfast/test/overlay"
)

// Mutant is the product with one rule broken.
type Mutant struct {
	Name     string
	Breaks   string // the rule, in words
	Patches  []Patch
	Scenario Scenario
}

// Patch replaces a piece of a file that is there exactly once. Nothing before means a file that is
// added.
type Patch struct{ File, Before, After string }

// Scenario is what brings a broken rule to light.
type Scenario struct {
	Name string
	// Provoke are patches that let the scenario happen more often than by chance: delays, and
	// elections at a moment of its choice. They break no rule. The product is built with them too.
	Provoke []Patch
	// Run returns what contradicts the promises: nothing if they hold. The error is one of the
	// scenario itself. It runs a binary with failpoints, and may write into dir.
	Run func(ctx context.Context, e Env) (caught []error, err error)
}

// Env is what a scenario works with.
type Env struct {
	Source *overlay.Overlay // with the mutant's patches
	Binary string           // built of it
	Dir    string
}

// source returns the product with failpoints and some patches.
func source(root string, patches ...Patch) (*overlay.Overlay, error) {
	o := overlay.New(root)
	for _, p := range patches {
		if p.Before == "" {
			o.Set(p.File, p.After)
			continue
		}
		if err := o.Patch(p.File, p.Before, p.After); err != nil {
			return nil, err
		}
	}
	_, err := failpoint.Arm(o)
	return o, err
}
