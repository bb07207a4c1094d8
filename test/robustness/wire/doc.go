// Package wire is the network between the peers of a test: each peer has its own network
// namespace, and a switch in this package carries the packets between them. The switch
// loses, delays and cuts packets, in one direction or both, for open and new connections
// alike. `tc netem` and a packet filter are not needed.
//
// It manages namespaces, addresses and packets, and does not inspect their contents beyond
// TCP headers.
package wire
