package mutant

import (
	"context"

	"github.com/holdfast-metal/holdfast/test/failpoint"
	"github.com/holdfast-metal/holdfast/test/overlay"
)

// Mutant is the product with one broken rule.
type Mutant struct {
	Name     string
	Breaks   string // the rule, in words
	Patches  []Patch
	Scenario Scenario
}

// Patch replaces a piece of a file that occurs exactly once. If Before is empty, the file
// is added.
type Patch struct{ File, Before, After string }

// Scenario is a sequence of events that exposes a broken rule.
type Scenario struct {
	Name string
	// Provoke are patches that make the scenario more likely: delays, and elections at
	// chosen moments. They break no rule, and the product is built with them too.
	Provoke []Patch
	// Run returns the violations of the promises, or nothing if they hold. Its error is one
	// of the scenario itself. It runs a binary with failpoints, and may write into dir.
	Run func(ctx context.Context, e Env) (caught []error, err error)
}

// Env is the environment of a scenario.
type Env struct {
	Source *overlay.Overlay // with the mutant's patches
	Binary string           // built from it
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
