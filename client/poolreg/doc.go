// Package poolreg is the client of pool registration (specification 001, POOLREG-18xxx): it
// registers a pool manager with an orchestrator, a platform or both, sends heartbeats with the
// pool's state, and deregisters the pool in the end.
//
// It owns the protocol: retries, the interval between heartbeats, when to register again, and four
// metrics. It does not know how the state is found (a Source tells it), makes no placement
// decisions and starts no workers. A pool manager works on when nobody can be reached (offline
// mode): no failure ends Run.
package poolreg
