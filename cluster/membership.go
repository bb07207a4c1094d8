package cluster

import (
	"context"
	"sync"
)

// membership is what this peer, as the leader, knows of the other peers beyond Raft's
// configuration. It removes peers.
type membership struct {
	n *Node

	departed departed
	seen     conditions // the peers' conditions, as this leader observed them
}

// departed lists the peers that have left, so that the leader does not add a peer again
// that is still in gossip. Each leader has its own list in memory. A peer that was removed
// by force and not stopped joins again under the next leader, as a nonvoter that catches up
// first. The flag's help text says so.
type departed struct {
	mu sync.Mutex
	m  map[string]string // id → instance
}

func (d *departed) add(id, instance string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.m == nil {
		d.m = map[string]string{}
	}
	d.m[id] = instance
}

func (d *departed) forget(id string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.m, id)
}

func (d *departed) has(id, instance string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	have, ok := d.m[id]
	return ok && have == instance
}

// answers reports whether a peer answers a request for its statistics.
func (ms *membership) answers(ctx context.Context, id string) bool {
	ctx, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	_, err := ms.n.reporter.peerStats(ctx, id)
	return err == nil
}
