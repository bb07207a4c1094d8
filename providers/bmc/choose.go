package bmc

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-metal/holdfast/providers"
)

// The drivers have these in common; what one lacks is Unsupported.
type (
	powerDriver interface {
		power(ctx context.Context) (providers.PowerState, error)
		setPower(ctx context.Context, a providers.PowerAction) error
	}
	bootDriver interface {
		boot(ctx context.Context) (providers.BootDevice, error)
		setBoot(ctx context.Context, d providers.BootDevice) error
	}
	mediaDriver interface {
		mediaURL(ctx context.Context) (string, error)
		insert(ctx context.Context, url string) error
		eject(ctx context.Context) error
	}
	reader interface {
		inventory(ctx context.Context) (*Inventory, error)
		events(ctx context.Context) ([]Event, error)
		progress(ctx context.Context) (Progress, error)
	}
	caretaker interface {
		light(ctx context.Context) (providers.LightState, error)
		identify(ctx context.Context, on bool) error
		clearEvents(ctx context.Context) error
		resetBMC(ctx context.Context) error
	}
)

// need returns what a driver can do, or an error that says that it cannot. Where IPMI is only what
// is left of a BMC for now, to try again may help.
func need[D any](c *controller, driver any, p Protocol, what string) (D, error) {
	d, ok := driver.(D)
	switch {
	case ok:
		return d, nil
	case c.hadRedfish():
		return d, providers.Errorf(providers.Transient, what, "%w", disagree("%s cannot do it, and Redfish, which this BMC has spoken, does not answer now", p))
	}
	return d, providers.Errorf(providers.Unsupported, what, "%s cannot do it; %w", p, errLacks)
}

// errLacks is what need says for good.
var errLacks = errors.New("it takes a BMC with Redfish")

// forget the driver that worked after that many operations without an answer: the BMC may speak
// another protocol now.
const maxSilence = 2

// probeShare bounds how long the first of two protocols is tried.
const probeShare = 15 * time.Second

// withShare bounds a try after which another one may have to be made in the time of ctx: it gets
// half of what is left, and no more than that.
func withShare(ctx context.Context, most time.Duration) (context.Context, context.CancelFunc) {
	if end, ok := ctx.Deadline(); ok {
		most = min(most, time.Until(end)/2)
	}
	return context.WithTimeout(ctx, most)
}

// choose returns the driver of a machine: the one that worked, else the first that answers a
// question. A refused login ends the search: it would be refused over the next protocol too, and
// count twice. So does a Redfish service that answers, whatever it says: who goes on to IPMI stays
// there, without all that Redfish alone can do.
func (c *controller) choose(ctx context.Context, m providers.Machine, e endpoint) (Protocol, any, error) {
	c.state.Lock()
	driver, remembered := c.driver, c.memo.Driver
	c.state.Unlock()
	protocols, err := e.protocols(m, c.p.cfg.Protocol, remembered)
	if err != nil {
		return "", nil, providers.Errorf(providers.Unsupported, "choose a protocol for "+m.GetMachineId(), "%w", err)
	}
	driverOf := func(p Protocol) powerDriver {
		switch {
		case p == IPMI:
			return c.ipmiOf(m, e)
		case p.vendor() != "":
			return c.vendorOf(p, e)
		}
		return c.redfishOf(m, e)
	}
	if len(protocols) == 1 {
		return protocols[0], driverOf(protocols[0]), nil
	}
	if driver == IPMI && c.redfishAgain(ctx, c.redfishOf(m, e), c.lookEvery()) {
		driver = Redfish
	}
	if driver != "" {
		return driver, driverOf(driver), nil
	}
	var errs []error
	for i, p := range protocols {
		d := driverOf(p)
		ctx, cancel := ctx, context.CancelFunc(func() {})
		if i < len(protocols)-1 {
			ctx, cancel = withShare(ctx, probeShare)
		}
		_, err := d.power(providers.Unhurried(ctx))
		cancel()
		if err == nil {
			c.works(p, len(errs) > 0)
			return p, d, nil
		}
		errs = append(errs, fmt.Errorf("%s: %w", p, err))
		if providers.ClassOf(classify("", err, false)) == providers.Auth || p == Redfish && !absent(err) {
			break
		}
	}
	return "", nil, errors.Join(errs...)
}

// instead returns Redfish where IPMI lacks what was asked, if the BMC turns out to speak it. That
// is soon looked at again: what comes of it else is an error for good.
func (c *controller) instead(ctx context.Context, m providers.Machine, e endpoint, err error) (*redfishHost, bool) {
	if !errors.Is(err, errLacks) {
		return nil, false
	}
	if all, err := e.protocols(m, c.p.cfg.Protocol, ""); err != nil || len(all) == 1 {
		return nil, false
	}
	h := c.redfishOf(m, e)
	return h, c.redfishAgain(ctx, h, lookSoon)
}

// absent reports whether an error of a Redfish service means that there is none: something else
// answers there, or nothing does.
func absent(err error) bool { return errors.Is(err, errNoRedfish) || silent(err) }

// outcome notes whether the driver got an answer.
func (c *controller) outcome(err error) {
	if errors.Is(err, context.Canceled) {
		return
	}
	c.state.Lock()
	defer c.state.Unlock()
	if !silent(err) {
		c.silence, c.deaf = 0, false
		return
	}
	if c.silence++; c.silence >= maxSilence {
		c.driver = ""
	}
	c.deaf = c.redfish.heard.Swap(false)
	c.redfish.http.CloseIdleConnections() // the first rung: connect anew
}
