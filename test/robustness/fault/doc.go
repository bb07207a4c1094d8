// Package fault is the ways in which the tests break a cluster: its processes, its network, its
// disks and what is on them. Each is undone again, and says what it needs; chance comes from a
// seed, so that a schedule can be run again.
//
// It must not decide what has to hold meanwhile or afterwards: that is package check's, and
// Cluster.Healthy.
package fault
