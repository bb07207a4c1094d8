// Package server is the edge of a peer: it serves the public API over gRPC, and to the HTTP
// APIs of the same process.
//
// It owns the path of a call, with its metrics, deadline, authorization and error status, and
// also health, reflection and the HTTP listener. The services are in packages below
// server/internal, one for each group of resources. A handler checks a request, turns it into
// a command or a query, and formats the response. It must not decide: the FSM does that
// within one Apply.
//
// It keeps no state of its own except caches of the replicated state. It must not know the
// executor, the kinds of providers, or consensus: see Node and State.
package server
