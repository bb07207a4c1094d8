package bmc

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-metal/holdfast/providers"
	"github.com/holdfast-metal/holdfast/providers/bmc/internal/access"
	"github.com/holdfast-metal/holdfast/providers/bmc/internal/bmclib"
	"github.com/holdfast-metal/holdfast/providers/bmc/internal/ipmi"
	"github.com/holdfast-metal/holdfast/providers/bmc/internal/redfish"
)

// The interfaces of the drivers. A driver returns Unsupported for operations that it lacks.
type (
	powerDriver interface {
		Power(ctx context.Context) (providers.PowerState, error)
		SetPower(ctx context.Context, a providers.PowerAction) error
	}
	bootDriver interface {
		Boot(ctx context.Context) (providers.BootDevice, error)
		SetBoot(ctx context.Context, d providers.BootDevice) error
	}
	mediaDriver interface {
		Media(ctx context.Context) (string, error)
		Insert(ctx context.Context, url string) error
		Eject(ctx context.Context) error
	}
	reader interface {
		Inventory(ctx context.Context) (*providers.Inventory, error)
		Events(ctx context.Context, log string) ([]providers.Event, error)
	}
	maintenanceDriver interface {
		Light(ctx context.Context) (providers.LightState, error)
		Identify(ctx context.Context, on bool) error
		ClearEvents(ctx context.Context, log string) error
		ResetBMC(ctx context.Context) error
	}
	healthDriver interface {
		Health(ctx context.Context) (providers.Health, error)
	}
)

// The capabilities of the drivers. Operations find them by a type assertion: see operate.
var (
	_ powerDriver       = (*redfish.Host)(nil)
	_ bootDriver        = (*redfish.Host)(nil)
	_ mediaDriver       = (*redfish.Host)(nil)
	_ reader            = (*redfish.Host)(nil)
	_ maintenanceDriver = (*redfish.Host)(nil)
	_ healthDriver      = (*redfish.Host)(nil)

	_ powerDriver       = (*ipmi.Host)(nil)
	_ bootDriver        = (*ipmi.Host)(nil)
	_ reader            = (*ipmi.Host)(nil)
	_ maintenanceDriver = (*ipmi.Host)(nil)
	_ healthDriver      = (*ipmi.Host)(nil)

	_ powerDriver = (*bmclib.Host)(nil)
	_ bootDriver  = (*bmclib.Host)(nil)
	_ reader      = (*bmclib.Host)(nil)
)

// cannot returns the error for an operation that the driver of p lacks. It is Transient if IPMI is
// in use only because Redfish does not answer at the moment: a retry may help.
func (c *controller) cannot(p Protocol, what string) error {
	if c.hadRedfish() {
		return providers.Errorf(providers.Transient, what, "%w", access.Disagree(
			"%s cannot do it, and Redfish, which this BMC has spoken, does not answer now", p))
	}
	return providers.Errorf(providers.Unsupported, what, "%s cannot do it; %w", p, errLacks)
}

// errLacks is in the error of cannot if the driver is the BMC's best one: a retry cannot help.
var errLacks = errors.New("it needs a BMC with Redfish")

// maxSilence is the number of unanswered operations after which the chosen driver is forgotten. The
// BMC may speak another protocol by then.
const maxSilence = 2

// probeShare bounds the attempt with the first of two protocols.
const probeShare = 15 * time.Second

// withShare bounds an attempt that another one may have to follow within the time of ctx: it may
// use half of the remaining time, and at most the given duration.
func withShare(ctx context.Context, most time.Duration) (context.Context, context.CancelFunc) {
	if end, ok := ctx.Deadline(); ok {
		most = min(most, time.Until(end)/2)
	}
	return context.WithTimeout(ctx, most)
}

// choose returns the driver of a machine: the last one that worked, else the first one that answers
// a query. A refused login ends the search: the next protocol would refuse it too, and it would
// count twice. Any answer of a Redfish service ends it as well. A fallback to IPMI would be
// permanent, without the features that only Redfish has.
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
	if driver == IPMI && c.redfishAgain(ctx, c.redfishOf(m, e), c.probeEvery()) {
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
		_, err := d.Power(providers.Unhurried(ctx))
		cancel()
		if err == nil {
			c.markDriver(p, len(errs) > 0)
			return p, d, nil
		}
		errs = append(errs, fmt.Errorf("%s: %w", p, err))
		if providers.ClassOf(access.Classify("", err, false)) == providers.Auth || p == Redfish && !absent(err) {
			break
		}
	}
	return "", nil, errors.Join(errs...)
}

// fallback returns the Redfish driver if IPMI lacks the operation and the BMC turns out to speak
// Redfish, else nil. Redfish is probed again soon, because the alternative is a permanent error.
func (c *controller) fallback(ctx context.Context, m providers.Machine, e endpoint, err error) any {
	if !errors.Is(err, errLacks) {
		return nil
	}
	if all, err := e.protocols(m, c.p.cfg.Protocol, ""); err != nil || len(all) == 1 {
		return nil
	}
	if h := c.redfishOf(m, e); c.redfishAgain(ctx, h, probeSoon) {
		return h
	}
	return nil
}

// absent reports whether err shows that there is no Redfish service: something else answers at the
// address, or nothing does.
func absent(err error) bool { return errors.Is(err, redfish.ErrNoService) || access.Silent(err) }

// outcome records whether the driver got an answer.
func (c *controller) outcome(err error) {
	if errors.Is(err, context.Canceled) {
		return
	}
	c.state.Lock()
	defer c.state.Unlock()
	if !access.Silent(err) {
		c.silence, c.acceptsButSilent = 0, false
		return
	}
	if c.silence++; c.silence >= maxSilence {
		c.driver = ""
	}
	c.acceptsButSilent = c.redfish.Reconnect() // first step of the escalation
}
