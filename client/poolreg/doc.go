// Package poolreg is the client of pool registration (specification 001, POOLREG-18xxx). It
// registers a pool manager with an orchestrator, a platform or both, sends heartbeats with
// the pool's state, and deregisters the pool at the end.
//
// The package implements the protocol: retries, the interval between heartbeats, when to
// register again, and four metrics. A Source supplies the state. The package makes no
// placement decisions and starts no workers. A pool manager keeps working while no server
// can be reached (offline mode), so no failure ends Run.
package poolreg
