package cluster

import "github.com/hashicorp/raft"

// Watching says whether the death watch holds a connection to a peer.
func (n *Node) Watching(id string) bool {
	w := n.watching.Load()
	return w != nil && *w == id
}

// WrapLogs puts something between Raft and its log.
func (c *Config) WrapLogs(w func(raft.LogStore) raft.LogStore) { c.wrapLogs = w }
