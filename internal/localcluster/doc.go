// Package localcluster runs a cluster on one machine, with a process for each peer, on loopback.
// The demo and the tests in test/ kill, stop and restart peers with it.
//
// It owns processes, ports and directories. It must not know more of a cluster than /readyz reports
// (docs/operating.md). It is not for production, because all peers share one host.
package localcluster
