// Package tracing sends the traces of three peers to an OTLP receiver, and checks them: a
// call through a follower is one trace over two peers, and each attempt is its own trace.
//
// It has no product code, and must not inspect a peer's state.
package tracing
