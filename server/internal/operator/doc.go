// Package operator administers the cluster: leadership, membership, autopilot, the clock, and
// snapshots. It owns the order of a restore across the peers.
//
// It must not know Raft or gossip: see Admin.
package operator
