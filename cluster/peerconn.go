package cluster

import "google.golang.org/grpc"

// PeerConn returns the connection to another peer, for services that peers offer each other. It is
// the node's: the caller does not close it.
func (n *Node) PeerConn(id string) (grpc.ClientConnInterface, error) { return n.conns.get(id) }
