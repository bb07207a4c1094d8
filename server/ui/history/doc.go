// Package history records for two weeks how many machines are in each state, how many runs
// end, the load of the leader, and the errors of BMCs.
//
// It owns the samples of this peer, at most 2 MiB in memory and in a file of the data directory,
// and the conversion of the leader's counters to rates. Machines and runs come from this peer's
// own state, and the rest from the leader. Each peer therefore has all of it, across changes of
// the leader and restarts.
//
// It must not be used for decisions. It is not replicated, and a damaged file is discarded; use
// metrics for longer periods (docs/operating.md).
package history
