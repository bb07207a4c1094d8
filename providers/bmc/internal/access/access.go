// Package access has the part of a BMC that all its drivers share: its account with the count of
// refused logins, the gate that limits concurrent access, the quirks of its hardware, and the
// classes of its errors.
//
// It owns the rule that a login may be tried, and the slots and pauses at the gate. It must not
// speak a protocol, choose a driver, or know machines' operations: packages redfish, ipmi and
// bmclib are the drivers, and package bmc chooses among them.
package access

import (
	"context"
	"time"
)

// BMC is one BMC with one account, as its drivers share it.
type BMC struct {
	Gate    *Gate
	Logins  *Logins
	Account func(ctx context.Context) (Account, error) // returns the current account
}

// Limits of a report of the health, with any driver.
const (
	LogWindow   = 24 * time.Hour // age up to which a critical entry of the event log counts
	LogReported = 3              // entries of the event log that are reported
)

// MaxText bounds the text of a BMC in our errors, in bytes.
const MaxText = 300
