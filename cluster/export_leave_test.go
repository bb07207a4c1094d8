package cluster

import "context"

// Leave asks the leader to take this peer out of the cluster, as the end of a graceful stop does.
func (n *Node) Leave(ctx context.Context) error { return n.leave(ctx) }
