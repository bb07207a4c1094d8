package bmc

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-metal/holdfast/providers"
)

// Inspect tells what the BMC knows. A BMC that does not answer is a fact, not an error. Whether the host answers is for somebody
// who speaks with it; a BMC that tells how far the machine has booted gives the next best answer, and the time of the last reset in place of a boot id.
func (p *Provider) Inspect(ctx context.Context, m providers.Machine) (providers.Facts, error) {
	f := providers.Facts{ReachableReason: "NotProbed"}
	err := p.operate(ctx, m, "inspect the BMC", false, func(ctx context.Context, _ *controller, d any, by Protocol) error {
		if h, ok := d.(*redfishHost); ok {
			s, err := h.read(ctx)
			if err == nil {
				s.facts(&f)
			}
			return err
		}
		pd, err := need[powerDriver](d, by, "inspect the BMC")
		if err != nil {
			return err
		}
		state, err := pd.power(ctx)
		if err == nil {
			f.BMCReachable, f.BMCReason = true, "IPMIOK"
		}
		if state == providers.PowerOff {
			f.ReachableReason = "PoweredOff"
		}
		return err
	})
	if err == nil {
		return f, nil
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, errClosed) {
		return providers.Facts{}, err
	}
	f.BMCReachable, f.BMCReason = false, reasonOf(err)
	return f, nil
}

// facts fills in what a system tells.
func (s *computerSystem) facts(f *providers.Facts) {
	f.BMCReachable, f.BMCReason = true, "RedfishOK"
	switch {
	case s.PowerState == "Off":
		f.ReachableReason = "PoweredOff"
	case s.BootProgress.LastState == "OSRunning":
		f.Reachable, f.ReachableReason = true, "OSRunning"
		f.BootID = s.LastReset
	case s.BootProgress.LastState != "" && s.BootProgress.LastState != "None":
		f.ReachableReason = s.BootProgress.LastState
	}
}

// reasonOf gives an error as the reason of a condition.
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
func (p *Provider) Inventory(ctx context.Context, m providers.Machine) (v *Inventory, err error) {
	err = p.operate(ctx, m, "read the inventory", false, func(ctx context.Context, _ *controller, d any, by Protocol) error {
		r, err := need[reader](d, by, "read the inventory")
		if err == nil {
			v, err = r.inventory(ctx)
		}
		return err
	})
	return v, err
}

// Events reads the event log, the oldest entry first.
func (p *Provider) Events(ctx context.Context, m providers.Machine) (all []Event, err error) {
	err = p.operate(ctx, m, "read the event log", false, func(ctx context.Context, _ *controller, d any, by Protocol) error {
		r, err := need[reader](d, by, "read the event log")
		if err == nil {
			all, err = r.events(ctx)
		}
		return err
	})
	return all, err
}

// BootProgress tells how far the machine has booted.
func (p *Provider) BootProgress(ctx context.Context, m providers.Machine) (g Progress, err error) {
	err = p.operate(ctx, m, "read the boot progress", false, func(ctx context.Context, _ *controller, d any, by Protocol) error {
		r, err := need[reader](d, by, "read the boot progress")
		if err == nil {
			g, err = r.progress(ctx)
		}
		return err
	})
	return g, err
}

// Identify switches the locator light.
func (p *Provider) Identify(ctx context.Context, _ providers.Op, m providers.Machine, on bool) error {
	return p.operate(ctx, m, "switch the locator light", true, func(ctx context.Context, _ *controller, d any, by Protocol) error {
		t, err := need[caretaker](d, by, "switch the locator light")
		if err != nil {
			return err
		}
		return t.identify(ctx, on)
	})
}

// resetEvery is how often a BMC may be reset.
const resetEvery = time.Hour

// ResetBMC restarts the BMC itself, which leaves the host alone: at most once an hour, and not while a press of the power button may be on its
// way. It does not ask the circuit breaker: a BMC that needs it does not answer much. Where Redfish does not answer, IPMI is asked.
func (p *Provider) ResetBMC(ctx context.Context, _ providers.Op, m providers.Machine) error {
	what := "reset the BMC of " + m.GetMachineId()
	if err := providers.InTime(ctx, what); err != nil {
		return err
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
	leave, err := c.exclusive(ctx)
	if err != nil {
		return classify(what, err, false)
	}
	defer leave()
	if err := c.mayReset(what); err != nil {
		return err
	}
	by, driver, err := c.choose(ctx, m, e)
	if err != nil {
		return classify(what, err, false)
	}
	t, err := need[caretaker](driver, by, what)
	if err != nil {
		return err
	}
	err = t.resetBMC(ctx)
	if err == nil || providers.ClassOf(classify(what, err, true)) == providers.Timeout { // it may have happened
		c.mu.Lock()
		c.memo.ResetAt = time.Now()
		c.mu.Unlock()
		c.remember(ctx)
		p.log.Warn("reset a BMC", "bmc", c.key, "machine", m.GetMachineId(), "by", by)
	}
	return classify(what, err, true)
}

// mayReset says whether the BMC may be reset now.
func (c *controller) mayReset(what string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if ago := time.Since(c.memo.ResetAt); ago < resetEvery {
		return providers.Errorf(providers.Transient, what, "%w", fmt.Errorf("not done: it was reset %s ago, and once an hour is the most: %w",
			ago.Round(time.Second), &Stuck{Next: Intervene, Until: c.memo.ResetAt.Add(resetEvery)}))
	}
	if c.pressing > 0 || time.Now().Before(c.powerEnd) {
		return providers.Errorf(providers.Transient, what, "not done: a press of the power button may be on its way; it is over at %s", c.powerEnd.UTC().Format(time.RFC3339))
	}
	return nil
}
