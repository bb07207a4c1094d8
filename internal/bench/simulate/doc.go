// Package simulate is `holdfast-bench simulate`: a fleet in one process, for load and soak. Agents,
// services and pool managers report over HTTP by the protocols that real ones speak, each at its
// own time; machines with fake BMCs are declared and given runs at a rate.
//
// It owns the behavior of the fleet and its view of the cluster. It must not start peers, and knows
// no more of them than a client does. The load generator is internal/bench/load.
package simulate
