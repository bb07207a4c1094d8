package netboot

import (
	"context"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/providers"
)

// An install looks at a machine before it does something to it, and may do two things one after the
// other. A BMC takes longer for that than one confirmation of the term is good for, every time
// anew: so looks are not hurried, and each effect has a confirmation of its own (decision 0004).

// confirmed does one effect.
func confirmed(ctx context.Context, what string, effect func(context.Context) error) error {
	ctx, err := providers.Confirmed(ctx, what)
	if err != nil {
		return err
	}
	return effect(ctx)
}

func press(ctx context.Context, b Buttons, op providers.Op, m providers.Machine, a providers.PowerAction) error {
	return confirmed(ctx, "press "+string(a), func(ctx context.Context) error { return b.SetPower(ctx, op, m, a) })
}

// bootFrom has the machine boot once from somewhere, unless it is about to.
func bootFrom(ctx context.Context, b Buttons, op providers.Op, m *holdfastv1.Machine, mode string) error {
	now, err := b.BootDevice(providers.Unhurried(ctx), m)
	now.ModeHidden = now.ModeHidden || err != nil
	want := providers.BootDevice{Mode: mode}.InMode(providers.BootKeep, now, m)
	if err == nil && now == want {
		return nil
	}
	return confirmed(ctx, "boot from "+mode, func(ctx context.Context) error { return b.SetBootDevice(ctx, op, m, want) })
}
