package bmc

import (
	"errors"
	"time"

	"github.com/holdfast-metal/holdfast/providers"
	"github.com/holdfast-metal/holdfast/providers/bmc/internal/access"
)

// Call describes one operation on a BMC, for metrics.
type Call struct {
	Vendor   string        // one of Vendors
	Protocol Protocol      // empty: none was reached
	Outcome  string        // one of Outcomes
	Took     time.Duration // including all waits
}

// unknownVendor stands for a BMC that does not report its vendor, as over IPMI. otherVendor stands
// for a vendor that is not in the list, so that a BMC cannot create label values.
const (
	unknownVendor = "unknown"
	otherVendor   = "other"
)

// breakerOutcome is the outcome of an operation that was not sent, because the circuit breaker is
// open.
const breakerOutcome = "breaker-open"

// Vendors returns the possible values of Call.Vendor.
func Vendors() []string {
	return []string{
		unknownVendor,
		otherVendor,
		"ami",
		"asrock",
		"dell",
		"fujitsu",
		"gigabyte",
		"hpe",
		"inspur",
		"lenovo",
		"openbmc",
		"quanta",
		"supermicro",
		"sushy",
	}
}

// Outcomes returns the possible values of Call.Outcome: ok, the class of the error, or
// breaker-open.
func Outcomes() []string {
	return []string{
		"ok",
		breakerOutcome,
		string(providers.Transient),
		string(providers.Auth),
		string(providers.Unsupported),
		string(providers.Gone),
		string(providers.Timeout),
		string(providers.Failed),
		string(providers.Late),
	}
}

// vendorLabel returns the metric label for the vendor that a BMC reports.
func vendorLabel(reported string) string {
	if reported == "" {
		return unknownVendor
	}
	for _, v := range Vendors()[2:] {
		if access.Contains(reported, v) {
			return v
		}
	}
	return otherVendor
}

// count reports an ended operation to the metrics.
func (p *Provider) count(c *controller, by Protocol, began time.Time, err error) {
	if p.called == nil {
		return
	}
	vendor, _ := c.redfish.Vendor()
	outcome := "ok"
	switch {
	case errors.As(err, new(*BreakerOpen)):
		outcome = breakerOutcome
	case err != nil:
		outcome = string(providers.ClassOf(err))
	}
	p.called(Call{Vendor: vendorLabel(vendor), Protocol: by, Outcome: outcome, Took: time.Since(began)})
}
