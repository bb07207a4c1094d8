package bmc

import "time"

// ParseEndpoint returns the parts of an endpoint: base of Redfish, port of IPMI, system, protocol.
func ParseEndpoint(s string) (redfish, ipmi, system string, only Protocol, err error) {
	e, err := parseEndpoint(s, true)
	return e.redfish, e.ipmi, e.system, e.only, err
}

// ProbeDue makes the check due whether BMCs with IPMI also have Redfish.
func (p *Provider) ProbeDue() { p.ProbedAt(time.Time{}) }

// ProbedAt sets the time of the last such check.
func (p *Provider) ProbedAt(at time.Time) {
	p.each(func(c *controller) {
		c.state.Lock()
		defer c.state.Unlock()
		c.probed = at
	})
}

// Kept returns the number of BMCs that the provider remembers.
func (p *Provider) Kept() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.bmcs)
}
