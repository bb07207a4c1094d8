package bmc

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast-metal/holdfast/providers"
)

// Light reports whether the locator light is on.
func (p *Provider) Light(ctx context.Context, m providers.Machine) (providers.LightState, error) {
	return ask(ctx, p, m, "read the locator light", caretaker.light)
}

// Identify switches the locator light.
func (p *Provider) Identify(ctx context.Context, _ providers.Op, m providers.Machine, on bool) error {
	return tell(ctx, p, m, "switch the locator light", func(ctx context.Context, d caretaker) error { return d.identify(ctx, on) })
}

// ClearEvents empties the event log.
func (p *Provider) ClearEvents(ctx context.Context, _ providers.Op, m providers.Machine) error {
	return tell(ctx, p, m, "clear the event log", func(ctx context.Context, d caretaker) error { return d.clearEvents(ctx) })
}

// resetEvery is how often a BMC may be reset.
const resetEvery = time.Hour

// ResetBMC restarts the BMC itself, which leaves the host alone: at most once an hour, and not
// while a press of the power button may be on its way. It does not ask the circuit breaker: a BMC
// that needs it does not answer much. Where Redfish does not answer, IPMI is asked.
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
	t, err := need[caretaker](c, driver, by, what)
	if err != nil {
		return err
	}
	// First it is recorded, then it is done: a leader that dies in between must not leave the next
	// one thinking that nothing was sent.
	before := c.resetAt(time.Now())
	if err := c.recorded(ctx); err != nil {
		c.resetAt(before)
		return providers.Errorf(providers.Transient, what, "not done: it could not be put on record: %w", err)
	}
	err = t.resetBMC(ctx)
	if err == nil || providers.ClassOf(classify(what, err, true)) == providers.Timeout { // it may have happened
		p.log.Warn("reset a BMC", "bmc", c.key, "machine", m.GetMachineId(), "by", by)
	} else {
		c.resetAt(before)
		c.remember(ctx)
	}
	return classify(what, err, true)
}

// resetAt changes when the BMC was reset, and gives what it was.
func (c *controller) resetAt(at time.Time) (before time.Time) {
	c.state.Lock()
	before, c.memo.ResetAt = c.memo.ResetAt, at
	c.state.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reset = at
	return before
}

// BMCResetAt reports when a reset of the BMC was last sent, by whichever leader.
func (p *Provider) BMCResetAt(ctx context.Context, m providers.Machine) (time.Time, error) {
	what := "look up the last reset of the BMC of " + m.GetMachineId()
	e, err := parseEndpoint(m.GetSpec().GetBmcEndpoint(), p.cfg.AllowHTTP)
	if err != nil {
		return time.Time{}, providers.Errorf(providers.Unsupported, what, "%w", err)
	}
	c, err := p.controllerOf(ctx, m, e)
	if err != nil {
		return time.Time{}, classify(what, err, false)
	}
	memo, err := p.memory.Recall(ctx, c.key) // another peer may have led meanwhile
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

// mayReset reports whether the BMC may be reset now.
func (c *controller) mayReset(what string) error {
	c.state.Lock()
	last := c.memo.ResetAt
	c.state.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.reset.After(last) { // for a machine that names another account
		last = c.reset
	}
	if ago := time.Since(last); ago < resetEvery {
		return providers.Errorf(providers.Transient, what, "%w", fmt.Errorf("not done: it was reset %s ago, and once an hour is the most: %w",
			ago.Round(time.Second), &Stuck{Next: Intervene, Until: last.Add(resetEvery)}))
	}
	if c.pressing > 0 || time.Now().Before(c.powerEnd) {
		return providers.Errorf(providers.Transient, what, "not done: a press of the power button may be on its way; it is over at %s", c.powerEnd.UTC().Format(time.RFC3339))
	}
	return nil
}
