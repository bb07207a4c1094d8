package cluster

import "google.golang.org/grpc"

// PeerConn returns the connection to another peer, for services between peers. The node
// owns it: the caller must not close it.
func (n *Node) PeerConn(id string) (grpc.ClientConnInterface, error) { return n.conns.get(id) }
