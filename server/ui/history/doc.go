// Package history records for two weeks how many machines are in each state, how many runs
// end, the load of the leader, and the errors of BMCs.
//
// It owns the samples in the memory of this peer, which are at most 2 MiB, and the conversion
// of the leader's counters to rates. Machines and runs come from this peer's own state, and
// the rest from the leader. Each peer therefore has all of it, across changes of the leader.
//
// It must not be used for decisions. It is not replicated; use metrics for longer periods
// (docs/operating.md).
package history
