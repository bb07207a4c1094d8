// Package bmc drives machines through their BMC (baseboard management controller), over Redfish and
// IPMI. It is the BMC half of the provider kinds datacenter and cloudbmc (docs/operating.md).
//
// It owns the connections to BMCs: one session at most with each, at most one writer and two
// readers at a time, a pause between commands where the hardware needs it (quirks.go), a circuit
// breaker, and a count of refused logins that stops before an account is locked. It must not know
// runs, plans, the FSM or the cluster, it does not log in to hosts, and it retries no effect.
//
// # Which driver
//
// Redfish is spoken by a thin driver of our own that takes the schemas from gofish; bmclib's was
// seen to ignore contexts, to report resets that did not happen and to change boot modes silently
// (research/bmc.md §1). It stands beside bmclib's registry, not in it: a client of that registry
// links, and logs in with, drivers for AMT and of vendors that nobody named, and its PowerSet has
// no room for what must be checked right before the bytes leave.
//
// IPMI is Debian's ipmitool. The event log is read by bmclib's driver for it. The rest starts the
// program itself: bmclib reads the power state twice before it presses, so that nobody can say when
// the press leaves; it answers "done" to a soft off when that reading failed; and it cannot tell a
// refused login from silence, so that the count of refused logins would be wrong.
//
// bmclib's other drivers (package vendor) are for what these two do not reach, such as Intel AMT
// and BMC services with its RPC. They are chosen by address or label and never probed for: decision
// 0022. The driver that worked is remembered for each machine (Memory) and tried first.
//
// # In time or not at all
//
// Over Redfish, providers/guard checks the not-after time in the line before the write. What takes
// time (logging in, finding the system, reading the ETag) goes before that and is kept, so that a
// call that came too late finds it done the next time. ipmitool sends when it pleases: the time is
// checked right before it starts, it is killed after Config.CommandTime even when this process is
// stopped, and ends with this process; Settle covers how long it may take.
package bmc
