// Package serve is the commands that run a process: server, one peer of a cluster,
// and fake-hardware, a fleet to try things on.
//
// It reads the configuration and puts the parts together. It must not hold logic of
// its own: what a peer does is in cluster, executor and server.
package serve
