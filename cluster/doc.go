// Package cluster owns the distributed parts of a peer: Raft and its stores, gossip,
// bootstrap, membership changes, leadership, commits, linearizable reads, and the
// forwarding of calls to the leader.
//
// It knows no resources. Machines, plans and runs are opaque to it, and a command is bytes
// with a result. It must not import executor, server or providers. Its only state is the
// peer's own identity and Raft's data.
//
// New creates a Node and opens its data directory and listeners. Run does the work and
// blocks.
package cluster
