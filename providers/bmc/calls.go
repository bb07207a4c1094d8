package bmc

import (
	"errors"
	"time"

	"github.com/holdfast-metal/holdfast/providers"
)

// Call is one operation on a BMC, as those learn of it who count.
type Call struct {
	Vendor   string        // one of Vendors
	Protocol Protocol      // empty: none was reached
	Outcome  string        // one of Outcomes
	Took     time.Duration // with all waits
}

// unknownVendor is the vendor of a BMC that has not said it, as over IPMI; otherVendor is one that
// is not in the list, so that no BMC makes up labels.
const (
	unknownVendor = "unknown"
	otherVendor   = "other"
)

// stuckOutcome is the outcome of what was not sent, because the BMC is left alone for a while.
const stuckOutcome = "left-alone"

// Vendors are the values that Call.Vendor has.
func Vendors() []string {
	return []string{unknownVendor, otherVendor, "ami", "asrock", "dell", "fujitsu", "gigabyte", "hpe", "inspur", "lenovo", "openbmc", "quanta", "supermicro", "sushy"}
}

// Outcomes are the values that Call.Outcome has: ok, the class of the error, or left-alone.
func Outcomes() []string {
	return []string{"ok", stuckOutcome, string(providers.Transient), string(providers.Auth), string(providers.Unsupported), string(providers.Gone),
		string(providers.Timeout), string(providers.Failed), string(providers.Late)}
}

// vendorLabel makes a label of what a BMC says of its maker.
func vendorLabel(said string) string {
	if said == "" {
		return unknownVendor
	}
	for _, v := range Vendors()[2:] {
		if contains(said, v) {
			return v
		}
	}
	return otherVendor
}

// count tells of an operation that has ended.
func (p *Provider) count(c *controller, by Protocol, began time.Time, err error) {
	if p.called == nil {
		return
	}
	vendor, _ := c.redfish.vendor()
	outcome := "ok"
	switch {
	case errors.As(err, new(*Stuck)):
		outcome = stuckOutcome
	case err != nil:
		outcome = string(providers.ClassOf(err))
	}
	p.called(Call{Vendor: vendorLabel(vendor), Protocol: by, Outcome: outcome, Took: time.Since(began)})
}
