// Package load is the load generator of the benchmarks and of `holdfast simulate`: the requests of
// agents, connections that cost little, a schedule for as many members of a fleet as memory holds,
// and a histogram of what they saw.
//
// It owns how load is made. It must not know what is measured, nor anything of a peer but its HTTP
// APIs.
package load
