// Package tracing sends the traces of three peers to a receiver of OTLP, and looks at what has
// come: a call through a follower is one trace over two peers, and each attempt is one of its own.
//
// It owns no product code, and must not look into a peer's state.
package tracing
