// Package server is the edge of a peer: the gRPC services of the public API, health and reflection,
// and the HTTP listener. A handler checks the request, makes it a command or a query, and words the
// answer; what it may not do is decide: the FSM does, inside one Apply.
//
// It owns how requests are checked and paged, how streams resume, how errors look on the wire, and
// what is measured of calls. It keeps no state of its own but caches of what the state says. It
// must not know the executor, kinds of providers, or how peers agree: see Node and State.
package server
