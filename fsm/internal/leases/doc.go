// Package leases has the heartbeats and the expiry of leases. It must not know the effect of either
// on the owner of a lease: each owner's package has it.
package leases
