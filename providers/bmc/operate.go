package bmc

import (
	"context"
	"time"

	"github.com/holdfast-metal/holdfast/providers"
)

// operate does one operation on the BMC of a machine. An effect is alone on its BMC; it is refused as late before anything is sent when its time
// has passed already.
func (p *Provider) operate(ctx context.Context, m providers.Machine, what string, effect bool, f func(ctx context.Context, c *controller, driver any, by Protocol) error) error {
	what += " of " + m.GetMachineId()
	if err := ctx.Err(); err != nil {
		return classify(what, err, false)
	}
	if effect {
		if err := providers.InTime(ctx, what); err != nil {
			return err
		}
	}
	e, err := parseEndpoint(m.GetSpec().GetBmcEndpoint(), p.cfg.AllowHTTP)
	if err != nil {
		return providers.Errorf(providers.Unsupported, what, "%w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, p.cfg.Timeout)
	defer cancel()
	c, err := p.controllerOf(ctx, m, e)
	if err != nil {
		return classify(what, err, false)
	}
	defer p.panicking(ctx, c)
	return c.guarded(ctx, what, func() error {
		if effect {
			leave, err := c.exclusive(ctx)
			if err != nil {
				return classify(what, &answered{err}, false)
			}
			defer leave()
		}
		by, driver, err := c.choose(ctx, m, e)
		if err == nil {
			err = f(ctx, c, driver, by)
		}
		c.outcome(err)
		return classify(what, err, effect)
	})
}

// panicking ends the session with a BMC when an operation on it panics: the process ends, and would leave it behind.
func (p *Provider) panicking(ctx context.Context, c *controller) {
	r := recover()
	if r == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(unhurried(ctx)), closeTime)
	defer cancel()
	_ = c.redfish.release(ctx, false)
	panic(r)
}

// PowerState asks the BMC. On the way from one to the other it is unknown.
func (p *Provider) PowerState(ctx context.Context, m providers.Machine) (s providers.PowerState, err error) {
	err = p.operate(ctx, m, "read the power", false, func(ctx context.Context, _ *controller, d any, by Protocol) error {
		pd, err := need[powerDriver](d, by, "read the power")
		if err == nil {
			s, err = pd.power(ctx)
		}
		return err
	})
	return s, err
}

// SetPower presses a button. The answer says that the BMC took it, not that it happened.
func (p *Provider) SetPower(ctx context.Context, _ providers.Op, m providers.Machine, a providers.PowerAction) error {
	switch a {
	case providers.ActionOn, providers.ActionSoftOff, providers.ActionHardOff:
	default:
		return unknownAction(a)
	}
	return p.operate(ctx, m, "press "+string(a), true, func(ctx context.Context, c *controller, d any, by Protocol) error {
		pd, err := need[powerDriver](d, by, "press a button")
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
		return pd.setPower(ctx, a)
	})
}

// BootDevice answers the override of the boot order; without one the Mode is empty.
func (p *Provider) BootDevice(ctx context.Context, m providers.Machine) (b providers.BootDevice, err error) {
	err = p.operate(ctx, m, "read the boot device", false, func(ctx context.Context, _ *controller, d any, by Protocol) error {
		bd, err := need[bootDriver](d, by, "read the boot device")
		if err == nil {
			b, err = bd.boot(ctx)
		}
		return err
	})
	return b, err
}

// SetBootDevice sets the override and reads it back.
func (p *Provider) SetBootDevice(ctx context.Context, _ providers.Op, m providers.Machine, b providers.BootDevice) error {
	return p.operate(ctx, m, "set the boot device", true, func(ctx context.Context, _ *controller, d any, by Protocol) error {
		bd, err := need[bootDriver](d, by, "set the boot device")
		if err != nil {
			return err
		}
		return bd.setBoot(ctx, b)
	})
}

// Media answers the URL of what is in the virtual drive, or "".
func (p *Provider) Media(ctx context.Context, m providers.Machine) (url string, err error) {
	err = p.operate(ctx, m, "read the virtual media", false, func(ctx context.Context, _ *controller, d any, by Protocol) error {
		md, err := need[mediaDriver](d, by, "virtual media")
		if err == nil {
			url, err = md.mediaURL(ctx)
		}
		return err
	})
	return url, err
}

// InsertMedia inserts an image and sees that it is there.
func (p *Provider) InsertMedia(ctx context.Context, _ providers.Op, m providers.Machine, url string) error {
	return p.operate(ctx, m, "insert virtual media", true, func(ctx context.Context, _ *controller, d any, by Protocol) error {
		md, err := need[mediaDriver](d, by, "virtual media")
		if err != nil {
			return err
		}
		return md.insert(ctx, url)
	})
}

// EjectMedia empties the virtual drive and sees that it is empty.
func (p *Provider) EjectMedia(ctx context.Context, _ providers.Op, m providers.Machine) error {
	return p.operate(ctx, m, "eject virtual media", true, func(ctx context.Context, _ *controller, d any, by Protocol) error {
		md, err := need[mediaDriver](d, by, "virtual media")
		if err != nil {
			return err
		}
		return md.eject(ctx)
	})
}
