// Package server is the edge of a peer: the gRPC services of the public API, health,
// reflection, and the HTTP listener. A handler checks a request, turns it into a command
// or a query, and formats the response. It must not decide: the FSM does that within one
// Apply.
//
// It owns the validation and paging of requests, the resumption of streams, the errors on
// the wire, and the metrics of calls. It keeps no state of its own except caches of the
// replicated state. It must not know the executor, the kinds of providers, or consensus:
// see Node and State.
package server
