package bmc

import (
	"context"
	"time"

	"github.com/holdfast-metal/holdfast/providers"
)

// How often is looked whether a BMC that is driven over IPMI speaks Redfish after all, and how long
// its service root may take to tell.
const (
	lookSoon  = time.Minute      // it has spoken it before
	lookLater = 10 * time.Minute // nobody has seen that
	lookTime  = 5 * time.Second
)

// works notes the driver that answered. IPMI in the place of Redfish is for now: one failure is no
// reason to tell the next leader that there is no Redfish.
func (c *controller) works(p Protocol, looked bool) {
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

// hadRedfish reports whether IPMI was chosen for a BMC that has spoken Redfish, with whichever
// leader. Where IPMI is what is configured nothing was chosen.
func (c *controller) hadRedfish() bool {
	c.state.Lock()
	defer c.state.Unlock()
	return c.driver == IPMI && c.memo.Driver == Redfish
}

// lookEvery returns how long after a look the next one is due.
func (c *controller) lookEvery() time.Duration {
	c.state.Lock()
	defer c.state.Unlock()
	if c.memo.Driver == Redfish {
		return lookSoon
	}
	return lookLater
}

// lookDue reports whether to look for Redfish now, and notes that it is done. Effects do not wait
// for that, nor does who has little time: the looks whether a BMC can be reached have 10 s, and
// must be able to do it.
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

// redfishAgain looks now and then whether a BMC that is driven over IPMI answers over Redfish, and
// goes over to that. A web server that was down or silent when the driver was chosen would else
// cost the machine its virtual media for good. It leaves time to ask over IPMI.
func (c *controller) redfishAgain(ctx context.Context, h *redfishHost, every time.Duration) bool {
	if !c.lookDue(ctx, every) {
		return false
	}
	asks, cancel := withShare(ctx, lookTime)
	_, err := c.redfish.readRoot(asks)
	cancel()
	if err != nil {
		return false
	}
	probes, cancel := withShare(ctx, probeShare)
	defer cancel()
	_, err = h.power(probes)
	switch {
	case err == nil:
		c.works(Redfish, true)
		c.p.log.Info("a BMC that was driven over IPMI answers over Redfish", "bmc", c.key)
	case providers.ClassOf(classify("", err, false)) == providers.Auth: // IPMI takes the account: enough of refused logins for a day
		c.state.Lock()
		c.looked = time.Now().Add(24 * time.Hour)
		c.state.Unlock()
	}
	return err == nil
}
