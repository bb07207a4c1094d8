package providertest_test

import (
	"context"

	"github.com/holdfast-metal/holdfast/providers"
	"github.com/holdfast-metal/holdfast/providers/fake"
)

type (
	neverLights  struct{ *fake.Provider }
	neverClears  struct{ *fake.Provider }
	resetsAlways struct{ *fake.Provider }
	losesParts   struct{ *fake.Provider }
)

func (neverLights) Identify(context.Context, providers.Op, providers.Machine, bool) error { return nil }

func (neverClears) ClearEvents(context.Context, providers.Op, providers.Machine, string) error {
	return nil
}

func (p resetsAlways) ResetBMC(ctx context.Context, op providers.Op, m providers.Machine) error {
	_ = p.Provider.ResetBMC(ctx, op, m)
	return nil
}

func (losesParts) Inventory(context.Context, providers.Machine) (*providers.Inventory, error) {
	return &providers.Inventory{Serial: "1"}, nil
}
