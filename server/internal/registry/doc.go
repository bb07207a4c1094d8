// Package registry serves the members of the fleet that register themselves and keep their
// registration with heartbeats: agents of machines, managers of pools, and services.
//
// It owns their time to live. It must not decide whether a lease has expired: the leader
// does that.
package registry
