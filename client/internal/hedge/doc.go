// Package hedge sends a request to a second target if the first one is slow, and uses the
// first response. A hung peer (a stopped process, a network that drops everything) returns
// no error, so only a timeout detects it. The second target tells a hung peer from a busy
// cluster.
//
// The package decides which target is tried next, after how long, and where slow targets go
// in the order. It never decides whether a request may be sent twice: client/repeat.go and
// rest.Request do.
//
// Why not a library: grpc-go does not implement the hedging of gRFC A6 (a hedgingPolicy in
// a service config has no effect). Its retries stay on one channel and wait for an error,
// which a hung peer does not send. go-grpc-middleware and the HTTP retriers try one target
// after the other.
package hedge
