package cluster

import "context"

// Leave asks the leader to remove this peer from the cluster, as a graceful stop does.
func (n *Node) Leave(ctx context.Context) error { return n.leave(ctx) }
