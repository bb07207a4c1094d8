// Package cluster owns everything that is distributed: Raft and its stores, gossip, how a cluster
// forms and changes its members, who leads, how commands are committed, how reads are kept
// linearizable, and how calls travel from any peer to the leader.
//
// It knows no resource: machines, plans and runs are opaque to it, commands are bytes with a result
// each. It must not import executor, server or providers, and it holds no state that is not either
// the peer's own identity or Raft's.
//
// A Node is made by New, which opens the data directory and the listeners, and lives in Run, which
// blocks.
package cluster
