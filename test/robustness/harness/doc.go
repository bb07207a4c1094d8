// Package harness builds holdfast, runs a cluster of it that can be broken in every way that a
// host, a network or a disk breaks, and says how it is. Peers and the fake hardware are processes
// of their own; with private namespaces (package private) each peer has its own network stack and
// its own disk, else only signals are left.
//
// It owns processes, disks, probes and the report of a failure. It must not decide what to break
// (package fault), nor what is right (package check).
package harness
