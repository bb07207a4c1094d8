// Package load is the load generator of the benchmarks and of `holdfast-bench simulate`: requests
// of agents, cheap connections, a schedule for millions of members, and a histogram of latencies.
//
// It owns the generation of load. It must not know the benchmarks, or more of a peer than its HTTP
// APIs.
package load
