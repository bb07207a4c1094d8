// Package history records the cluster's load: a sample from the leader every few seconds,
// for an hour.
//
// It owns a fixed-size ring in the memory of this peer, and the conversion of the leader's
// counters to rates. Each peer samples the leader itself, so each has the history since its
// own start, across leader changes.
//
// It must not be used for decisions. It is neither replicated nor stored on disk; use
// metrics for longer periods (docs/operating.md).
package history
