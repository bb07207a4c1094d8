package gossip

import (
	"fmt"
	"time"

	"github.com/hashicorp/memberlist"
	"google.golang.org/protobuf/proto"
)

// memberlist calls the methods below, some with its lock held. They must not call it back.

var (
	_ memberlist.Delegate         = (*Gossip)(nil)
	_ memberlist.EventDelegate    = (*Gossip)(nil)
	_ memberlist.AliveDelegate    = (*Gossip)(nil)
	_ memberlist.MergeDelegate    = (*Gossip)(nil)
	_ memberlist.ConflictDelegate = (*Gossip)(nil)
)

// NodeMeta implements memberlist.Delegate. It returns nothing if the metadata does not fit;
// Open checks that.
func (g *Gossip) NodeMeta(limit int) []byte {
	meta := g.meta()
	data, err := proto.Marshal(meta)
	if err != nil || len(data) > limit {
		return nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.published = meta
	return data
}

// NotifyMsg implements memberlist.Delegate. Peers send no messages through gossip.
func (g *Gossip) NotifyMsg([]byte) {}

// GetBroadcasts implements memberlist.Delegate.
func (g *Gossip) GetBroadcasts(int, int) [][]byte { return nil }

// LocalState implements memberlist.Delegate.
func (g *Gossip) LocalState(bool) []byte { return nil }

// MergeRemoteState implements memberlist.Delegate.
func (g *Gossip) MergeRemoteState([]byte, bool) {}

// NotifyJoin implements memberlist.EventDelegate.
func (g *Gossip) NotifyJoin(n *memberlist.Node) { g.set(n, true) }

// NotifyUpdate implements memberlist.EventDelegate.
func (g *Gossip) NotifyUpdate(n *memberlist.Node) { g.set(n, true) }

// NotifyLeave implements memberlist.EventDelegate. Memberlist does not distinguish leaving
// from dying.
func (g *Gossip) NotifyLeave(n *memberlist.Node) { g.set(n, false) }

func (g *Gossip) set(n *memberlist.Node, alive bool) {
	meta, err := decodeMeta(n)
	if err != nil {
		g.log.Warn("gossip ignored: invalid metadata", "error", err)
		return
	}
	g.mu.Lock()
	old, known := g.members[n.Name]
	now := Member{Meta: meta, Addr: n.Address(), Alive: alive, Since: time.Now()}
	if known && old.Alive == alive {
		now.Since = old.Since
	}
	g.members[n.Name] = now
	if alive {
		delete(g.failed, now.Addr)
	}
	g.mu.Unlock()
	if !known || old.Alive != alive {
		g.log.Info("peer seen in gossip", "peer", n.Name, "alive", alive, "gossip", now.Addr,
			"raft", meta.GetRaftAddr(), "version", meta.GetVersion())
	}
	g.changed.Fire()
}

// NotifyAlive implements memberlist.AliveDelegate. It rejects peers of another cluster.
func (g *Gossip) NotifyAlive(n *memberlist.Node) error {
	what := g.mismatch(n)
	if what == "" {
		return nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if m, ok := g.members[n.Name]; ok && n.Name != g.self && m.Addr == n.Address() {
		delete(g.members, n.Name)
	}
	return errForeign(what)
}

// NotifyMerge implements memberlist.MergeDelegate. It rejects the state of another cluster.
func (g *Gossip) NotifyMerge(nodes []*memberlist.Node) error {
	var err error
	changed := false
	for _, n := range nodes {
		what := g.mismatch(n)
		if what == "" || n.State != memberlist.StateAlive {
			continue
		}
		g.mu.Lock()
		g.foreign[n.Address()] = what
		changed = changed || g.warned[n.Address()] != what
		g.warned[n.Address()] = what
		g.mu.Unlock()
		err = errForeign(what)
	}
	if changed { // both sides retry all the time
		g.log.Error("gossip with another cluster refused", "error", err)
	}
	return err
}

// mismatch returns the reason why a peer cannot belong to this cluster, or "" if it can.
func (g *Gossip) mismatch(n *memberlist.Node) string {
	meta, err := decodeMeta(n)
	if err != nil {
		return err.Error()
	}
	own := g.meta()
	if a, b := own.GetClusterId(), meta.GetClusterId(); a != "" && b != "" && a != b {
		return fmt.Sprintf("peer %s at %s belongs to cluster %s, but this peer, %s at %s, has data of cluster %s: "+
			"join a peer of that cluster, or start with an empty data directory",
			meta.GetId(), n.Address(), b, own.GetId(), own.GetRaftAddr(), a)
	}
	return ""
}

// NotifyConflict implements memberlist.ConflictDelegate.
func (g *Gossip) NotifyConflict(existing, other *memberlist.Node) {
	g.log.Error("two addresses for one peer id: "+
		"a second peer uses this id, or a peer has moved and its old address has not timed out",
		"id", existing.Name, "known", existing.Address(), "other", other.Address())
}
