package bmc

import (
	"context"
	"strings"
	"time"

	"github.com/holdfast-metal/holdfast/providers"
	"github.com/holdfast-metal/holdfast/providers/bmc/internal/access"
)

// ParseEndpoint shows what an endpoint means: base of Redfish, port of IPMI, system, protocol.
func ParseEndpoint(s string) (redfish, ipmi, system string, only Protocol, err error) {
	e, err := parseEndpoint(s, true)
	return e.redfish, e.ipmi, e.system, e.only, err
}

// VendorInventory words an inventory of bmclib.
var VendorInventory = vendorInventory

// What is read from ipmitool's output.
var (
	ParsePower = parsePower
	ParseEvent = parseEvent
	Quiet      = quiet
)

// ParseBootFlags reads boot flags of a BMC without quirks.
func ParseBootFlags(out string) (providers.BootDevice, error) {
	return parseBootFlags(out, access.Quirks{})
}

// IPMIError puts what ipmitool said into a class.
func IPMIError(ctx context.Context, err error, out string) error {
	return ipmiError(ctx, "ipmitool", err, out)
}

// ParseLight reads a chassis status.
func ParseLight(out string) providers.LightState { return parseLight(out) }

// Sensors returns the problems in what `ipmitool sdr elist` prints.
func Sensors(out string) []providers.Problem {
	var h providers.Health
	for line := range strings.Lines(out) {
		if s, ok := parseSensor(line); ok {
			if p, bad := s.problem(); bad {
				h.Problems = append(h.Problems, p)
			}
		}
	}
	h.Sort()
	return h.Problems
}

// Over words a sensor's line with what `ipmitool sensor get` prints.
func Over(line, more string) string {
	s, _ := parseSensor(line)
	return s.over(fields(more))
}

// Logged returns the problems in what `ipmitool sel elist` prints.
func Logged(out string, now time.Time) []providers.Problem { return logged(out, now) }

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

// KeptBoot compares a boot device with what IPMI shows of it.
var KeptBoot = keptBoot

// Kept counts the BMCs that the provider knows.
func (p *Provider) Kept() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.bmcs)
}
