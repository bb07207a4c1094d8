// Package simulate implements `holdfast-bench simulate`: a fleet in one process, for load and soak
// tests. Agents, services and pool managers use the real protocols over HTTP, each with its own
// schedule. Machines with fake BMCs are registered, and runs are started on them at a fixed rate.
//
// It owns the behavior of the fleet and its observations. It must not start peers, and uses only
// their public APIs. The load generator is bench/load.
package simulate
