package bmc

import (
	"context"
	"time"

	"github.com/holdfast-metal/holdfast/providers"
	"github.com/holdfast-metal/holdfast/providers/bmc/internal/access"
)

// operate performs one operation on the BMC of a machine. An effect runs alone on its BMC. If its
// not-after time has passed, it is refused as late before anything is sent.
func (p *Provider) operate(
	ctx context.Context,
	m providers.Machine,
	what string,
	effect bool,
	f func(ctx context.Context, c *controller, driver any, by Protocol) error,
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
		by, driver, err = c.choose(ctx, m, e)
		if err == nil {
			err = f(ctx, c, driver, by)
		}
		if h, ok := c.fallback(ctx, m, e, err); ok {
			by = Redfish
			err = f(ctx, c, h, by)
		}
		c.outcome(err)
		return access.Classify(what, err, effect)
	})
	p.count(c, by, began, err)
	return err
}

// find returns the endpoint of a machine's BMC and its controller.
func (p *Provider) find(ctx context.Context, m providers.Machine, what string) (endpoint, *controller, error) {
	e, err := parseEndpoint(m.GetSpec().GetBmcEndpoint(), p.cfg.AllowHTTP)
	if err != nil {
		return e, nil, providers.Errorf(providers.Unsupported, what, "%w", err)
	}
	c, err := p.controllerOf(ctx, m, e)
	return e, c, access.Classify(what, err, false)
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
	query := func(ctx context.Context, c *controller, driver any, by Protocol) error {
		d, err := as[D](c, driver, by, what)
		if err == nil {
			v, err = get(d, ctx)
		}
		return err
	}
	err = p.operate(ctx, m, what, false, query)
	return v, err
}

// write performs an effect on a BMC with a driver that implements D.
func write[D any](
	ctx context.Context, p *Provider, m providers.Machine, what string, do func(context.Context, D) error,
) error {
	return p.operate(ctx, m, what, true, func(ctx context.Context, c *controller, driver any, by Protocol) error {
		d, err := as[D](c, driver, by, what)
		if err != nil {
			return err
		}
		return do(ctx, d)
	})
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
	press := func(ctx context.Context, c *controller, d any, by Protocol) error {
		pd, err := as[powerDriver](c, d, by, "press a button")
		if err != nil {
			return err
		}
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
		return pd.SetPower(ctx, a)
	}
	return p.operate(ctx, m, "press "+string(a), true, press)
}

// BootDevice returns the override of the boot order. Without an override its Mode is empty.
func (p *Provider) BootDevice(ctx context.Context, m providers.Machine) (providers.BootDevice, error) {
	return read(ctx, p, m, "read the boot device", bootDriver.Boot)
}

// SetBootDevice sets the override and reads it back.
func (p *Provider) SetBootDevice(
	ctx context.Context, _ providers.Op, m providers.Machine, b providers.BootDevice,
) error {
	return write(ctx, p, m, "set the boot device", func(ctx context.Context, d bootDriver) error {
		return d.SetBoot(ctx, b)
	})
}

// Media returns the URL of the image in the virtual drive, or "".
func (p *Provider) Media(ctx context.Context, m providers.Machine) (string, error) {
	return read(ctx, p, m, "read the virtual media", mediaDriver.Media)
}

// InsertMedia inserts an image and verifies it.
func (p *Provider) InsertMedia(ctx context.Context, _ providers.Op, m providers.Machine, url string) error {
	return write(ctx, p, m, "insert virtual media", func(ctx context.Context, d mediaDriver) error {
		return d.Insert(ctx, url)
	})
}

// EjectMedia empties the virtual drive and verifies it.
func (p *Provider) EjectMedia(ctx context.Context, _ providers.Op, m providers.Machine) error {
	return write(ctx, p, m, "eject virtual media", func(ctx context.Context, d mediaDriver) error {
		return d.Eject(ctx)
	})
}
