// Package operator has the commands that administer a cluster: snapshots, members, recovery,
// upgrades and the data for support.
//
// It must not change a data directory that a peer uses.
package operator
