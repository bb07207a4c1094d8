package bmc

import "time"

// ParseEndpoint shows what an endpoint means: base of Redfish, port of IPMI, system, protocol.
func ParseEndpoint(s string) (redfish, ipmi, system string, only Protocol, err error) {
	e, err := parseEndpoint(s, true)
	return e.redfish, e.ipmi, e.system, e.only, err
}

// LookDue makes it time to look whether BMCs that are driven over IPMI speak Redfish.
func (p *Provider) LookDue() { p.LookedAt(time.Time{}) }

// LookedAt sets when that was looked at last.
func (p *Provider) LookedAt(at time.Time) {
	p.each(func(c *controller) {
		c.state.Lock()
		defer c.state.Unlock()
		c.looked = at
	})
}

// Kept counts the BMCs that the provider knows.
func (p *Provider) Kept() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.bmcs)
}
