// Package machine is the client of machine registration (specification 000). It registers a
// machine and sends keepalives until its context ends.
//
// The package implements the protocol of an agent: when to register, when to send a
// keepalive, when to register again, and an identity that survives restarts. A Source
// supplies the machine's facts. No failure of a server ends the agent: it waits out an
// election, an outage or a refused token.
package machine
