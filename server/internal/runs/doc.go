// Package runs serves runs: their start and cancellation, their records, their logs, and the
// stream of their transitions.
//
// It must not drive runs: package executor does that on the leader.
package runs
