package netboot

import (
	"context"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/providers"
)

// An install reads the state of a machine before an effect, and may have two effects in a row. A
// BMC can need more time for that than one confirmation is valid. So reads are not bound by the
// not-after time, and each effect is confirmed separately (docs/decisions/0004).

// confirmed performs one effect with a fresh confirmation.
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

// bootFrom sets the one-time boot device, unless it is already set.
func bootFrom(ctx context.Context, b Buttons, op providers.Op, m *holdfastv1.Machine, mode string) error {
	now, err := b.BootDevice(providers.Unhurried(ctx), m)
	now.ModeHidden = now.ModeHidden || err != nil
	want := providers.BootDevice{Mode: mode}.InMode(providers.BootKeep, now, m)
	if err == nil && now == want {
		return nil
	}
	return confirmed(ctx, "boot from "+mode, func(ctx context.Context) error {
		return b.SetBootDevice(ctx, op, m, want)
	})
}
