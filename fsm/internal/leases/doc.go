// Package leases has the heartbeats and the expiry of leases. It must not change the owner of a
// lease itself: the owner's package does.
package leases
