package bmc

import (
	"context"
	"errors"

	"github.com/holdfast-metal/holdfast/providers"
)

// Inspect reports what the BMC knows. A BMC that does not answer is a fact, not an error. Whether
// the host answers is for somebody who speaks with it; a BMC that tells how far the machine has
// booted gives the next best answer, and the time of the last reset in place of a boot id.
func (p *Provider) Inspect(ctx context.Context, m providers.Machine) (providers.Facts, error) {
	f := providers.Facts{ReachableReason: providers.NotProbed, ReachableUnknown: true}
	err := p.operate(ctx, m, "inspect the BMC", false, func(ctx context.Context, c *controller, d any, by Protocol) error {
		if h, ok := d.(*redfishHost); ok {
			s, err := h.read(ctx)
			if err == nil {
				s.facts(&f)
			}
			return err
		}
		pd, err := need[powerDriver](c, d, by, "inspect the BMC")
		if err != nil {
			return err
		}
		state, err := pd.power(ctx)
		if err == nil {
			f.BMCReachable, f.BMCReason = true, "IPMIOK"
		}
		if state == providers.PowerOff {
			f.ReachableReason, f.ReachableUnknown = "PoweredOff", false
		}
		return err
	})
	if err == nil {
		return f, nil
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, errClosed) {
		return providers.Facts{}, err
	}
	f.BMCReachable, f.BMCReason, f.BMCStuck = false, reasonOf(err), p.stuck(m)
	if why := providers.WhyNotAsked(err); why != "" {
		f.BMCReason, f.BMCUnknown = why, true
	}
	return f, nil
}

// stuck reports whether it is time to restart the machine's BMC without being asked for.
func (p *Provider) stuck(m providers.Machine) bool {
	e, err := parseEndpoint(m.GetSpec().GetBmcEndpoint(), p.cfg.AllowHTTP)
	if err != nil || !p.cfg.AutoReset {
		return false
	}
	p.mu.Lock()
	c := p.bmcs[keyOf(m, e)]
	p.mu.Unlock()
	if c == nil {
		return false
	}
	c.state.Lock()
	long := c.opened >= 2 && c.deaf
	c.state.Unlock()
	return long && c.mayReset("reset the BMC") == nil
}

// facts fills in what a system tells.
func (s *computerSystem) facts(f *providers.Facts) {
	f.BMCReachable, f.BMCReason = true, "RedfishOK"
	switch {
	case s.PowerState == "Off":
		f.ReachableReason, f.ReachableUnknown = "PoweredOff", false
	case s.BootProgress.LastState == "OSRunning":
		f.Reachable, f.ReachableReason, f.ReachableUnknown = true, "OSRunning", false
		f.BootID = s.LastReset
	case s.BootProgress.LastState != "" && s.BootProgress.LastState != "None":
		f.ReachableReason, f.ReachableUnknown = s.BootProgress.LastState, false
	}
}

// reasonOf returns an error as the reason of a condition.
func reasonOf(err error) string {
	if AdviceOf(err) != "" {
		return "LeftAlone"
	}
	switch providers.ClassOf(err) {
	case providers.Auth:
		return "AuthFailed"
	case providers.Timeout:
		return "Timeout"
	case providers.Unsupported:
		return "Unsupported"
	case providers.Gone:
		return "Gone"
	}
	return "Unreachable"
}

// Inventory reads what is in the machine.
func (p *Provider) Inventory(ctx context.Context, m providers.Machine) (*Inventory, error) {
	return ask(ctx, p, m, "read the inventory", reader.inventory)
}

// Events reads the event log, the oldest entry first.
func (p *Provider) Events(ctx context.Context, m providers.Machine) ([]Event, error) {
	return ask(ctx, p, m, "read the event log", reader.events)
}

// BootProgress reports how far the machine has booted.
func (p *Provider) BootProgress(ctx context.Context, m providers.Machine) (Progress, error) {
	return ask(ctx, p, m, "read the boot progress", reader.progress)
}
