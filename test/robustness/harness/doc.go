// Package harness builds holdfast, runs a cluster that can be broken in all ways in which a
// host, a network or a disk breaks, and checks its health. Peers and the fake hardware are
// separate processes. With private namespaces (package private) each peer has its own
// network stack and disk; without, only signals are available.
//
// It manages processes, disks, probes and the report of a failure. Package fault decides
// what to break, and package check what is right.
package harness
