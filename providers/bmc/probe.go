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
	probeSoon  = time.Minute      // it has spoken Redfish before
	probeLater = 10 * time.Minute // it never has
	probeTime  = 5 * time.Second
)

// markDriver records the driver that answered. IPMI in place of Redfish is not stored: after a
// single failure the next leader should still try Redfish first.
func (c *controller) markDriver(p Protocol, probed bool) {
	c.state.Lock()
	defer c.state.Unlock()
	c.driver = p
	if p == Redfish || c.memo.Driver != Redfish {
		c.memo.Driver = p
	}
	if probed {
		c.probed = time.Now()
	}
}

// hadRedfish reports whether IPMI was chosen for a BMC that has spoken Redfish, under any leader.
// It returns false if IPMI is configured.
func (c *controller) hadRedfish() bool {
	c.state.Lock()
	defer c.state.Unlock()
	return c.driver == IPMI && c.memo.Driver == Redfish
}

// probeEvery returns the interval of the probes for Redfish.
func (c *controller) probeEvery() time.Duration {
	c.state.Lock()
	defer c.state.Unlock()
	if c.memo.Driver == Redfish {
		return probeSoon
	}
	return probeLater
}

// probeDue reports whether to probe for Redfish now, and records the probe. Effects do not wait for
// one, nor do calls with little time. A reachability check has 10 s, which is enough.
func (c *controller) probeDue(ctx context.Context, every time.Duration) bool {
	if _, hurried := providers.NotAfter(ctx); hurried {
		return false
	}
	if end, ok := ctx.Deadline(); ok && time.Until(end) < probeTime {
		return false
	}
	c.state.Lock()
	defer c.state.Unlock()
	if time.Since(c.probed) < every {
		return false
	}
	c.probed = time.Now()
	return true
}

// redfishAgain probes now and then for Redfish on a BMC that is driven over IPMI, and switches to
// Redfish if it answers. Otherwise a web server that was down when the driver was chosen would cost
// the machine its virtual media permanently. It leaves time for a query over IPMI.
func (c *controller) redfishAgain(ctx context.Context, h *redfish.Host, every time.Duration) bool {
	if !c.probeDue(ctx, every) {
		return false
	}
	readCtx, cancel := withShare(ctx, probeTime)
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
		c.probed = time.Now().Add(24 * time.Hour)
		c.state.Unlock()
	}
	return err == nil
}
