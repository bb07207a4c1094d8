package cluster

import "context"

// RemoveLeaving removes a peer as if it had asked for it.
func (n *Node) RemoveLeaving(ctx context.Context, id string) error {
	return n.membership.remove(ctx, id, true)
}

// Leave asks the leader to remove this peer from the cluster, as a graceful stop does.
func (n *Node) Leave(ctx context.Context) error { return n.leave(ctx) }
