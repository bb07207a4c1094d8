// Package wire is the network that the peers of a test share: each has a network namespace of its
// own, and a switch of ours carries the packets between them. On the way the switch loses, delays
// and cuts, in one direction or both, for connections that are open already as for new ones; `tc
// netem` and a packet filter are not needed.
//
// It owns namespaces, addresses and packets. It must not know what the packets say, or who leads.
package wire
