package bmc

import (
	"context"
	"time"

	"github.com/holdfast-metal/holdfast/providers"
	"github.com/holdfast-metal/holdfast/providers/bmc/internal/access"
)

// operate performs one operation on the BMC of a machine, with a driver that implements D. An
// effect runs alone on its BMC. If its not-after time has passed, it is refused as late before
// anything is sent.
func operate[D any](
	ctx context.Context,
	p *Provider,
	m providers.Machine,
	what string,
	effect bool,
	do func(context.Context, *controller, D) error,
) error {
	what += " of " + m.GetMachineId()
	if err := ctx.Err(); err != nil {
		return access.Classify(what, err, false)
	}
	if effect {
		if err := providers.InTime(ctx, what); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, p.cfg.Timeout)
	defer cancel()
	e, c, err := p.find(ctx, m, what)
	if err != nil {
		return err
	}
	defer p.panicking(ctx, c)
	began, by := time.Now(), Protocol("")
	err = c.guarded(ctx, what, func() error {
		if effect {
			leave, err := c.exclusive(ctx)
			if err != nil {
				return access.Classify(what, access.Answered(err), false)
			}
			defer leave()
		}
		var driver any
		var err error
		if by, driver, err = c.choose(ctx, m, e); err == nil {
			if d, ok := driver.(D); ok {
				err = do(ctx, c, d)
			} else {
				err = c.cannot(by, what)
			}
		}
		if d, ok := c.fallback(ctx, m, e, err).(D); ok {
			by = Redfish
			err = do(ctx, c, d)
		}
		c.outcome(err)
		return access.Classify(what, err, effect)
	})
	p.count(c, by, began, err)
	return err
}

// panicking ends the session with a BMC if an operation on it panics. The process is about to end
// and would leave the session open.
func (p *Provider) panicking(ctx context.Context, c *controller) {
	r := recover()
	if r == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(providers.Unhurried(ctx)), closeTime)
	defer cancel()
	_ = c.redfish.Release(ctx, false)
	panic(r)
}

// read reads from a BMC with a driver that implements D.
func read[D, T any](
	ctx context.Context,
	p *Provider,
	m providers.Machine,
	what string,
	get func(D, context.Context) (T, error),
) (v T, err error) {
	err = operate(ctx, p, m, what, false, func(ctx context.Context, _ *controller, d D) (err error) {
		v, err = get(d, ctx)
		return err
	})
	return v, err
}

// PowerState reads the power state. It is unknown during a transition.
func (p *Provider) PowerState(ctx context.Context, m providers.Machine) (providers.PowerState, error) {
	return read(ctx, p, m, "read the power", powerDriver.Power)
}

// SetPower presses a button. It returns once the BMC has accepted the request, before it shows.
func (p *Provider) SetPower(ctx context.Context, _ providers.Op, m providers.Machine, a providers.PowerAction) error {
	switch a {
	case providers.ActionOn, providers.ActionSoftOff, providers.ActionHardOff:
	default:
		return access.UnknownAction(a)
	}
	press := func(ctx context.Context, c *controller, d powerDriver) error {
		c.mu.Lock()
		c.pressing++
		c.mu.Unlock()
		defer func() {
			settle := p.Settle(m)
			c.mu.Lock()
			defer c.mu.Unlock()
			c.pressing--
			c.powerEnd = time.Now().Add(settle)
		}()
		return d.SetPower(ctx, a)
	}
	return operate(ctx, p, m, "press "+string(a), true, press)
}

// BootDevice returns the override of the boot order. Without an override its Mode is empty.
func (p *Provider) BootDevice(ctx context.Context, m providers.Machine) (providers.BootDevice, error) {
	return read(ctx, p, m, "read the boot device", bootDriver.Boot)
}

// SetBootDevice sets the override and reads it back.
func (p *Provider) SetBootDevice(
	ctx context.Context, _ providers.Op, m providers.Machine, b providers.BootDevice,
) error {
	return operate(ctx, p, m, "set the boot device", true, func(ctx context.Context, _ *controller, d bootDriver) error {
		return d.SetBoot(ctx, b)
	})
}

// Media returns the URL of the image in the virtual drive, or "".
func (p *Provider) Media(ctx context.Context, m providers.Machine) (string, error) {
	return read(ctx, p, m, "read the virtual media", mediaDriver.Media)
}

// InsertMedia inserts an image and verifies it.
func (p *Provider) InsertMedia(ctx context.Context, _ providers.Op, m providers.Machine, url string) error {
	return operate(ctx, p, m, "insert virtual media", true, func(ctx context.Context, _ *controller, d mediaDriver) error {
		return d.Insert(ctx, url)
	})
}

// EjectMedia empties the virtual drive and verifies it.
func (p *Provider) EjectMedia(ctx context.Context, _ providers.Op, m providers.Machine) error {
	return operate(ctx, p, m, "eject virtual media", true, func(ctx context.Context, _ *controller, d mediaDriver) error {
		return d.Eject(ctx)
	})
}
