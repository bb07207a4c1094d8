package bmc

import (
	"context"
	"time"

	"github.com/holdfast-metal/holdfast/providers"
	"github.com/holdfast-metal/holdfast/providers/bmc/internal/access"
)

// Light returns the state of the locator light.
func (p *Provider) Light(ctx context.Context, m providers.Machine) (providers.LightState, error) {
	return read(ctx, p, m, "read the locator light", maintenanceDriver.Light)
}

// Identify switches the locator light.
func (p *Provider) Identify(ctx context.Context, _ providers.Op, m providers.Machine, on bool) error {
	do := func(ctx context.Context, _ *controller, d maintenanceDriver) error {
		return d.Identify(ctx, on)
	}
	return operate(ctx, p, m, "switch the locator light", true, do)
}

// ClearEvents empties the log of the hardware, or the one with an id.
func (p *Provider) ClearEvents(ctx context.Context, _ providers.Op, m providers.Machine, log string) error {
	do := func(ctx context.Context, _ *controller, d maintenanceDriver) error {
		return d.ClearEvents(ctx, log)
	}
	return operate(ctx, p, m, "clear the event log", true, do)
}

// resetEvery is the minimum time between two resets of a BMC.
const resetEvery = time.Hour

// ResetBMC restarts the BMC; the host keeps running. It is allowed at most once an hour, and not
// while a press of the power button may be under way. It ignores the circuit breaker, because a
// BMC that needs a reset hardly answers. If Redfish does not answer, it uses IPMI.
func (p *Provider) ResetBMC(ctx context.Context, _ providers.Op, m providers.Machine) error {
	what := "reset the BMC of " + m.GetMachineId()
	if err := providers.InTime(ctx, what); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, p.cfg.Timeout)
	defer cancel()
	e, c, err := p.find(ctx, m, what)
	if err != nil {
		return err
	}
	defer p.panicking(ctx, c)
	leave, err := c.exclusive(ctx)
	if err != nil {
		return access.Classify(what, err, false)
	}
	defer leave()
	if err := c.mayReset(what); err != nil {
		return err
	}
	by, driver, err := c.choose(ctx, m, e)
	if err != nil {
		return access.Classify(what, err, false)
	}
	t, ok := driver.(maintenanceDriver)
	if !ok {
		return c.cannot(by, what)
	}
	// The reset is recorded before it is sent. Otherwise a leader that dies in between would leave
	// the next one without any trace of the reset.
	before := c.resetAt(p.now())
	if err := c.flush(ctx); err != nil {
		c.resetAt(before)
		return providers.Errorf(providers.Transient, what, "not sent: cannot record the reset: %w", err)
	}
	err = t.ResetBMC(ctx)
	unknown := err != nil && providers.ClassOf(access.Classify(what, err, true)) == providers.Timeout
	if err == nil || unknown {
		p.log.Warn("BMC reset sent", "bmc", c.key, "machine", m.GetMachineId(), "by", by)
	} else {
		c.resetAt(before)
		c.save(ctx)
	}
	return access.Classify(what, err, true)
}

// resetAt sets the time of the last reset and returns the previous one.
func (c *controller) resetAt(at time.Time) (before time.Time) {
	c.state.Lock()
	before, c.memo.ResetAt = c.memo.ResetAt, at
	c.state.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reset = at
	return before
}

// BMCResetAt returns the time of the last reset of the BMC, sent by any leader.
func (p *Provider) BMCResetAt(ctx context.Context, m providers.Machine) (time.Time, error) {
	what := "look up the last reset of the BMC of " + m.GetMachineId()
	_, c, err := p.find(ctx, m, what)
	if err != nil {
		return time.Time{}, err
	}
	memo, err := p.memory.Recall(ctx, c.key) // another peer may have led in the meantime
	if err != nil {
		return time.Time{}, providers.Errorf(providers.Transient, what, "%w", err)
	}
	c.state.Lock()
	defer c.state.Unlock()
	if memo.ResetAt.After(c.memo.ResetAt) {
		c.memo.ResetAt = memo.ResetAt
	}
	return c.memo.ResetAt, nil
}

// mayReset returns an error if the BMC must not be reset now.
func (c *controller) mayReset(what string) error {
	c.state.Lock()
	last := c.memo.ResetAt
	c.state.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.reset.After(last) { // through a machine with another account
		last = c.reset
	}
	if ago := c.p.now().Sub(last); ago < resetEvery {
		open := &BreakerOpen{Next: Intervene, Until: last.Add(resetEvery)}
		return providers.Errorf(providers.Transient, what,
			"not sent: the BMC was reset %s ago, at most one reset an hour is allowed: %w",
			ago.Round(time.Second), open)
	}
	if c.pressing > 0 || time.Now().Before(c.powerEnd) {
		return providers.Errorf(providers.Transient, what,
			"not sent: a press of the power button may be under way until %s: try again then",
			c.powerEnd.UTC().Format(time.RFC3339))
	}
	return nil
}
