// Package bmc drives machines through their BMC (baseboard management controller), over Redfish and
// IPMI. It is the BMC part of the provider kinds datacenter and cloudbmc (docs/operating.md).
//
// It owns the connections to BMCs: at most one session with each, at most one writer and two
// readers at a time, a pause between commands if the hardware needs it (package access), a circuit
// breaker, and a count of refused logins that stops before an account is locked. It must not know
// runs, plans, the FSM or the cluster. It does not log in to hosts, and it retries no effect.
//
// # Which driver
//
// The Redfish driver is our own and thin. bmclib's driver ignored
// contexts, reported resets that did not happen, and changed boot modes silently. Our driver is not
// in bmclib's registry either. A client of the registry links drivers for AMT and for vendors that
// were not configured, and logs in with them. Its PowerSet has no place for the check right before
// the bytes leave.
//
// The IPMI driver is Debian's ipmitool. bmclib's driver reads the event log. For all other calls we
// start the program ourselves, for three reasons. bmclib reads the power state twice before it
// presses, so the time of the press is unknown. It reports success for a soft off if that reading
// failed. And it cannot tell a refused login from silence, so the count of refused logins would be
// wrong.
//
// bmclib's other drivers (packages bmclib and vendor) cover hardware that these two do not reach,
// such as Intel AMT and services with bmclib's RPC. They are chosen by address or label and never
// probed for: docs/decisions/0022. The driver that worked is stored for each machine (Memory) and
// tried first.
//
// The drivers are the packages redfish, ipmi and bmclib below internal. They know neither each
// other's state nor this package. Package access has the state of a BMC that they share. This
// package chooses the driver of each operation, and keeps the circuit breaker and the stored state.
//
// # In time or not at all
//
// Over Redfish, package guard checks the not-after time in the line before the write. Slow
// preparation (logging in, finding the system, reading the ETag) comes before that. Its results are
// kept, so that the next call after a late one finds it done. The moment at which ipmitool sends is
// unknown. So the time is checked right before it starts; it is killed after Config.CommandTime,
// even if this process is stopped; and it ends with this process. Settle covers its run time.
package bmc
