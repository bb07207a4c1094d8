// Package workload makes the traffic under which a cluster is broken, and records what came of it.
//
// Clients on all peers start, replay, cancel and read runs, and read and write machines and plans;
// watchers and log tails lose their peer all the time and go on with another one. Each call is one
// try on one peer, without the SDK's retries, so that its own outcome is known. All times are of
// one monotonic clock.
//
// It owns what is asked and how the answers are classed. It must not judge them: that is package
// check's.
package workload
