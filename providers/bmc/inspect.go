package bmc

import (
	"context"
	"errors"

	"github.com/holdfast-metal/holdfast/providers"
	"github.com/holdfast-metal/holdfast/providers/bmc/internal/access"
	"github.com/holdfast-metal/holdfast/providers/bmc/internal/redfish"
	"github.com/holdfast-metal/holdfast/providers/internal/text"
)

// Inspect returns the BMC's view of the machine. A BMC that does not answer is a fact, not an
// error. Only a connection to the host proves that the host answers. The second best source is a
// BMC that reports the boot progress; the boot id is then the time of the last reset.
func (p *Provider) Inspect(ctx context.Context, m providers.Machine) (providers.Facts, error) {
	f := providers.Facts{ReachableReason: providers.NotProbed, ReachableUnknown: true}
	inspect := func(ctx context.Context, _ *controller, d powerDriver) error {
		if h, ok := d.(*redfish.Host); ok {
			return h.Facts(ctx, &f)
		}
		state, err := d.Power(ctx)
		if err == nil {
			f.BMCReachable, f.BMCReason, f.Power = true, "IPMIOK", state
		}
		if state == providers.PowerOff {
			f.ReachableReason, f.ReachableUnknown = "PoweredOff", false
		}
		return err
	}
	err := operate(ctx, p, m, "inspect the BMC", false, inspect)
	if err == nil {
		return f, nil
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, access.ErrClosed) {
		return providers.Facts{}, err
	}
	f.BMCReachable, f.BMCReason, f.BMCSilent, f.Power = false, reasonOf(err), p.silent(m), providers.PowerUnknown
	f.BMCMessage = text.Clip(err.Error(), access.MaxText)
	if why := providers.WhyNotAsked(err); why != "" {
		f.BMCReason, f.BMCUnknown = why, true
	}
	return f, nil
}

// silent reports whether the machine's BMC is due for an automatic reset.
func (p *Provider) silent(m providers.Machine) bool {
	_, c, _ := p.known(m)
	if c == nil || !p.cfg.AutoReset {
		return false
	}
	c.state.Lock()
	long := c.opened >= 2 && c.acceptsButSilent
	c.state.Unlock()
	return long && c.mayReset("reset the BMC") == nil
}

// reasonOf returns the reason of a condition for err. A BMC whose answer is of no use did answer.
func reasonOf(err error) string {
	class := providers.ClassOf(err)
	switch {
	case AdviceOf(err) != "":
		return "BreakerOpen"
	case class != providers.Auth && (access.IsAnswered(err) || class == providers.Gone):
		return "BadAnswer"
	}
	return class.Reason("Unreachable")
}

// Inventory reads the parts of the machine.
func (p *Provider) Inventory(ctx context.Context, m providers.Machine) (*providers.Inventory, error) {
	return read(ctx, p, m, "read the inventory", reader.Inventory)
}

// Events reads the log of the hardware, or the one with an id, the oldest entry first.
func (p *Provider) Events(ctx context.Context, m providers.Machine, log string) ([]providers.Event, error) {
	return read(ctx, p, m, "read the event log", func(d reader, ctx context.Context) ([]providers.Event, error) {
		return d.Events(ctx, log)
	})
}

// Health reads the health of the machine's parts from the BMC: drives, power supplies, fans,
// temperatures, and the newest entries of its event log.
func (p *Provider) Health(ctx context.Context, m providers.Machine) (providers.Health, error) {
	return read(ctx, p, m, "read the health", healthDriver.Health)
}
