// Package load is the load generator of the benchmarks and of `holdfast-bench simulate`: requests
// of agents, cheap connections, a schedule for as many members of a fleet as memory holds, and a
// histogram of the answers.
//
// It owns how load is made. It must not know what is measured, nor anything of a peer but its HTTP
// APIs.
package load
