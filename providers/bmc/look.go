package bmc

import (
	"context"
	"time"

	"github.com/holdfast-metal/holdfast/providers"
	"github.com/holdfast-metal/holdfast/providers/bmc/internal/access"
	"github.com/holdfast-metal/holdfast/providers/bmc/internal/redfish"
)

// Intervals of the probes for Redfish on a BMC that is driven over IPMI, and the time limit for
// reading its service root.
const (
	lookSoon  = time.Minute      // it has spoken Redfish before
	lookLater = 10 * time.Minute // it never has
	lookTime  = 5 * time.Second
)

// markDriver records the driver that answered. IPMI in place of Redfish is not stored: after a
// single failure the next leader should still try Redfish first.
func (c *controller) markDriver(p Protocol, looked bool) {
	c.state.Lock()
	defer c.state.Unlock()
	c.driver = p
	if p == Redfish || c.memo.Driver != Redfish {
		c.memo.Driver = p
	}
	if looked {
		c.looked = time.Now()
	}
}

// hadRedfish reports whether IPMI was chosen for a BMC that has spoken Redfish, under any leader.
// It returns false if IPMI is configured.
func (c *controller) hadRedfish() bool {
	c.state.Lock()
	defer c.state.Unlock()
	return c.driver == IPMI && c.memo.Driver == Redfish
}

// lookEvery returns the interval of the probes for Redfish.
func (c *controller) lookEvery() time.Duration {
	c.state.Lock()
	defer c.state.Unlock()
	if c.memo.Driver == Redfish {
		return lookSoon
	}
	return lookLater
}

// lookDue reports whether to probe for Redfish now, and records the probe. Effects do not wait for
// one, nor do calls with little time. A reachability check has 10 s, which is enough.
func (c *controller) lookDue(ctx context.Context, every time.Duration) bool {
	if _, hurried := providers.NotAfter(ctx); hurried {
		return false
	}
	if end, ok := ctx.Deadline(); ok && time.Until(end) < lookTime {
		return false
	}
	c.state.Lock()
	defer c.state.Unlock()
	if time.Since(c.looked) < every {
		return false
	}
	c.looked = time.Now()
	return true
}

// redfishAgain probes now and then for Redfish on a BMC that is driven over IPMI, and switches to
// Redfish if it answers. Otherwise a web server that was down when the driver was chosen would cost
// the machine its virtual media permanently. It leaves time for a query over IPMI.
func (c *controller) redfishAgain(ctx context.Context, h *redfish.Host, every time.Duration) bool {
	if !c.lookDue(ctx, every) {
		return false
	}
	readCtx, cancel := withShare(ctx, lookTime)
	err := c.redfish.Probe(readCtx)
	cancel()
	if err != nil {
		return false
	}
	probeCtx, cancel := withShare(ctx, probeShare)
	defer cancel()
	_, err = h.Power(probeCtx)
	switch {
	case err == nil:
		c.markDriver(Redfish, true)
		c.p.log.Info("BMC answers over Redfish, switching from IPMI", "bmc", c.key)
	case providers.ClassOf(access.Classify("", err, false)) == providers.Auth:
		// IPMI accepts the account. Wait for a day before the next login that may be refused.
		c.state.Lock()
		c.looked = time.Now().Add(24 * time.Hour)
		c.state.Unlock()
	}
	return err == nil
}
