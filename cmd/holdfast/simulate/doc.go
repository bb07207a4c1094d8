// Package simulate is `holdfast simulate`: a fleet in one process, for load and soak. Agents,
// services and pool managers report over HTTP by the protocols that real ones speak, each at its
// own time; machines with fake BMCs are declared and given runs at a rate.
//
// It owns what a fleet does and what it has seen of the cluster. It must not start peers, nor know
// anything of them that a client does not. How load is made belongs to cmd/holdfast/load, which the
// benchmarks use too.
package simulate
