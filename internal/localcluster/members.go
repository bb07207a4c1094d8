package localcluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// All returns the peers, with the spare ones, by id.
func (c *Cluster) All() []*Peer { return slices.Clone(c.all) }

// Add starts the next spare peer, which joins the others. It is one of Peers from then on.
func (c *Cluster) Add(ctx context.Context) (*Peer, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	i := slices.IndexFunc(c.all, func(p *Peer) bool { return !slices.Contains(c.peers, p) })
	if i < 0 {
		return nil, errors.New("add a peer: there is no spare one")
	}
	p := c.all[i]
	if err := p.Start(ctx); err != nil {
		return nil, fmt.Errorf("add a peer: %w", err)
	}
	c.peers = slices.Insert(c.peers, min(i, len(c.peers)), p)
	return p, nil
}

// Remove stops an added peer, which leaves the cluster, and removes its data. Then it is a spare
// one.
func (c *Cluster) Remove(ctx context.Context, p *Peer) error {
	if err := p.Stop(ctx); err != nil {
		return fmt.Errorf("remove a peer: %w", err)
	}
	c.mu.Lock()
	c.peers = slices.DeleteFunc(slices.Clone(c.peers), func(o *Peer) bool { return o == p })
	c.mu.Unlock()
	return p.Wipe()
}
