// Package localcluster runs a cluster on one machine: each peer a process of its own, on loopback.
// The demo and the tests in test/ kill, stop and restart peers with it.
//
// It owns processes, ports and directories. It must not know what a cluster does beyond what
// /readyz says (docs/operating.md), and it is no way to run Holdfast for real: all peers share one
// host.
package localcluster
