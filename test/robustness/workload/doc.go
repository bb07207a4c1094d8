// Package workload makes the traffic while a cluster is broken, and records the results.
//
// Clients on all peers start, replay, cancel and read runs, and read and write machines and
// plans. Watchers and log tails often lose their peer and continue with another one. Each
// call is one try on one peer, without the SDK's retries, so that its own outcome is known.
// All times are of one monotonic clock.
//
// It makes the calls and classifies the responses. Package check judges them.
package workload
