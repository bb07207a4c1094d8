// Package machine is the client of machine registration (specification 000): it registers a machine
// and keeps it alive, for as long as its context lasts.
//
// It owns the protocol of an agent: when to register, when to say that the machine is there, what
// to do when the server has forgotten it, and the identity that outlives a restart. It does not
// know how a machine's facts are found: a Source tells them. Nothing a server does or fails to do
// ends it: an election, an outage or a refused token are waited for.
package machine
