// Package vendor opens drivers of bmclib by name: vendors' own interfaces beside the standard ones,
// Intel AMT, and BMC services that speak bmclib's RPC.
//
// It owns which drivers there are, how each is configured and what their errors mean. It must not
// decide when a driver is used, and it adds no evidence: the bmc package holds every call to its
// budgets, checks that an effect is in time, and reads back what can be read.
package vendor
