// Package hedge asks somebody else as well when the first one takes long, and takes the answer that
// comes first. A peer that hangs (a stopped process, a network that swallows everything) refuses
// nothing, so that only time tells, and only a second opinion tells a peer that hangs from a
// cluster that is busy.
//
// It owns who is asked next, after how long, and what becomes of those that were too slow. It does
// not know what is asked, and never decides whether a request may be sent twice: client/repeat.go
// and rest.Request say so.
//
// Why not a library's: grpc-go does not do the hedging of gRFC A6 (a hedgingPolicy in a service
// config has no effect), and its retries stay on one channel and wait for an error that a peer
// which hangs does not send. Those of go-grpc-middleware and of the HTTP retriers try one after the
// other.
package hedge
