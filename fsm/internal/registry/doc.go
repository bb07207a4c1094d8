// Package registry has the rules of pools, marketplace providers and services, which register
// themselves and send heartbeats. It must not know a machine, only their number in a pool.
package registry
