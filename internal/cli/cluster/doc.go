// Package cluster has the commands of the peers of a cluster: status, safety, drills, admission and
// versions.
//
// It must not touch a data directory: package operator does.
package cluster
