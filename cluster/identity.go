package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-metal/holdfast/cluster/internal/marks"
	"github.com/holdfast-metal/holdfast/cluster/internal/raftstore"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

const identityFile = "identity.json"

// identity is a peer's permanent record of itself, apart from its Raft log.
type identity struct {
	path string // empty in memory

	mu  sync.Mutex
	rec identityRecord
}

// identityRecord is the content of identity.json.
type identityRecord struct {
	NodeID string `json:"node_id"`
	// Instance is created with the data directory. The same node id with another instance
	// is a peer that has lost the data that it acknowledged.
	Instance  string `json:"instance"`
	ClusterID string `json:"cluster_id,omitempty"`
	// Admitted is true if the peer may vote: it holds everything that it ever acknowledged.
	Admitted bool `json:"admitted"`
	// AdmittedAt is the Raft index when the instance was admitted, 0 for a founder. It orders the
	// instances of a peer.
	AdmittedAt uint64 `json:"admitted_at,omitempty"`
	// Stale is why the directory lost its vote although it has data: it is older than what the peer
	// acknowledged. It is empty once the peer has caught up.
	Stale string `json:"stale,omitempty"`
	// Forming holds the founders while their cluster is being formed, until its first
	// leader is known.
	Forming []founder `json:"forming,omitempty"`
	// Recovered is true if Recover made this peer the first one of its cluster. Peers of its
	// former cluster may still run at the addresses that it joins.
	Recovered bool `json:"recovered,omitempty"`
}

// expectLog records in the configuration of the stores whether the data directory must hold
// a Raft log.
func (r identityRecord) expectLog(cfg *raftstore.Config) error {
	return cfg.ExpectLog(r.ClusterID, len(r.Forming) == 0 && (r.Admitted || r.ClusterID != ""))
}

// founder is a peer of a cluster's first configuration.
type founder struct {
	ID       string `json:"id"`
	Instance string `json:"instance"`
	RaftAddr string `json:"raft_addr"`
}

// openIdentity reads the identity in a data directory, or creates one in a new directory.
// It never overwrites the identity of another peer.
func openIdentity(dir, nodeID string) (*identity, error) {
	if dir == "" {
		return &identity{rec: newIdentity(nodeID)}, nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make data directory: %w", err)
	}
	if err := os.Chmod(dir, 0o700); err != nil { //nolint:gosec // it is a directory
		return nil, fmt.Errorf("restrict access to the data directory: %w", err)
	}
	id, err := readIdentity(dir)
	if errors.Is(err, fs.ErrNotExist) {
		for _, name := range raftstore.Names() {
			if _, err := os.Stat(filepath.Join(dir, name)); err == nil {
				return nil, fmt.Errorf("data directory %s has raft state (%s) but no %s: "+
					"%s",
					dir, name, identityFile, raftstore.DamageAdvice)
			}
		}
		return id, id.store(newIdentity(nodeID))
	}
	if err != nil {
		return nil, err
	}
	if id.rec.NodeID != nodeID {
		return nil, fmt.Errorf("data directory %s belongs to peer %q, but this peer is %q: "+
			"start it with its own directory or node id",
			dir, id.rec.NodeID, nodeID)
	}
	return id, nil
}

// readIdentity reads the identity in a data directory. If there is none, the error is
// fs.ErrNotExist, and the returned identity is empty.
func readIdentity(dir string) (*identity, error) {
	id := &identity{path: filepath.Join(dir, identityFile)}
	data, err := os.ReadFile(id.path)
	if errors.Is(err, fs.ErrNotExist) {
		return id, fmt.Errorf("not the data directory of a peer: %w", err)
	}
	if err != nil {
		return id, fmt.Errorf("read identity: %w", err)
	}
	if err := json.Unmarshal(data, &id.rec); err != nil {
		return id, fmt.Errorf("read identity %s: %w: %s", id.path, err, raftstore.DamageAdvice)
	}
	return id, nil
}

func newIdentity(nodeID string) identityRecord {
	return identityRecord{NodeID: nodeID, Instance: uuid.NewString()}
}

// get returns a copy.
func (i *identity) get() identityRecord {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.rec
}

// update changes the identity. If it returns nil, the identity is on disk.
func (i *identity) update(change func(*identityRecord) error) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	rec := i.rec
	if err := change(&rec); err != nil {
		return err
	}
	return i.store(rec)
}

// store requires the lock, or that the identity is not shared yet.
func (i *identity) store(rec identityRecord) error {
	if i.path != "" {
		data, err := json.MarshalIndent(rec, "", "  ")
		if err != nil {
			return fmt.Errorf("encode identity: %w", err)
		}
		if err := writeFileSync(i.path, append(data, '\n')); err != nil {
			return fmt.Errorf("write identity: %w", err)
		}
		// failpoint: identity-stored
	}
	i.rec = rec
	return nil
}

// writeFileSync replaces a file (0600) atomically: after a crash it is the old or the new
// one.
func writeFileSync(path string, data []byte) error {
	dir := filepath.Dir(path)
	tmp, err := os.CreateTemp(dir, "."+filepath.Base(path)+".*") // 0600
	if err != nil {
		return err
	}
	_, err = tmp.Write(data)
	err = errors.Join(err, tmp.Sync(), tmp.Close())
	// failpoint: identity-written
	if err == nil {
		err = os.Rename(tmp.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(tmp.Name()))
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// ErrStale is returned by Run if another peer remembers a later state of this peer's data
// directory. The directory has lost its vote. The next start catches up with the other peers.
var ErrStale = marks.ErrStale

func (n *Node) openMarks() (*marks.Keeper, error) {
	k, err := marks.Open(marks.Config{
		Self: n.cfg.NodeID, Store: n.stores, Note: n.stores.NoteEnd, File: n.stores.VoteFile(),
		Identity: func() marks.Identity {
			r := n.ident.get()
			return marks.Identity{Cluster: r.ClusterID, Instance: r.Instance, Admitted: r.Admitted, AdmittedAt: r.AdmittedAt}
		},
		LoseVote: func(why string) error {
			if n.gate != nil {
				n.gate.Admit(false)
			}
			return n.ident.loseVote(why)
		},
		Scale: n.cfg.scale(time.Second).Seconds(), Logger: n.log,
	})
	if errors.Is(err, marks.ErrForeign) {
		err = fmt.Errorf("data directory %s: %w: %s", n.cfg.DataDir, err, raftstore.DamageAdvice)
	}
	return k, err
}

// loseVote makes this directory that of a peer that has lost its data, because it is old.
func (i *identity) loseVote(why string) error {
	return i.update(func(r *identityRecord) error {
		r.Instance, r.Admitted, r.AdmittedAt, r.Stale = uuid.NewString(), false, 0, why
		return nil
	})
}

// meet compares this peer's data directory with that of a peer that has connected or answered.
func (n *Node) meet(g *internalv1.Greeting) error {
	err := n.marks.Meet(g)
	if err != nil {
		n.roster.LogRefusal("greeting", g.GetPeerId(), err)
	}
	return err
}

// keepMarks compares the marks of this directory with what the other peers remember of it.
func (n *Node) keepMarks(ctx context.Context) error {
	return n.marks.Run(ctx, marks.Others{
		Changed: n.gossip.Changed,
		Voters:  func() []string { others, _ := n.voters(); return others },
		Peers: func() (ids []string) {
			for _, s := range n.servers() {
				if id := string(s.ID); id != n.cfg.NodeID {
					ids = append(ids, id)
				}
			}
			return ids
		},
		Meet: func(ctx context.Context, id string, g *internalv1.Greeting) (*internalv1.Greeting, error) {
			c, err := n.conns.Peer(id)
			if err != nil {
				return nil, err
			}
			r, err := c.Meet(ctx, &internalv1.MeetRequest{Greeting: g})
			return r.GetGreeting(), err
		},
	})
}

// unfit returns why a data directory may not vote although it has data, or "".
func unfit(i *identity, k *marks.Keeper) string {
	if r := i.get(); r.Stale != "" {
		return "its data directory is older than what it had acknowledged, or may be, so it votes again once it has caught " +
			"up: " + r.Stale
	}
	return k.Why()
}

// keepIdentity stores the cluster id once the state has it, and gossips changes of this
// peer's metadata.
func (n *Node) keepIdentity(ctx context.Context) error {
	for {
		meta, changed := n.metaChanged.Wait(), n.fsm.Changed()
		if err := n.learnCluster(); err != nil {
			return err
		}
		n.gossip.Publish()
		if m := n.gossipMeta(); m.GetClusterId() != "" && m.GetBootstrapped() && len(n.ident.get().Forming) == 0 {
			changed = nil // nothing more to learn from the state
		}
		select {
		case <-meta:
		case <-changed:
		case <-ctx.Done():
			return nil
		}
	}
}

func (n *Node) learnCluster() error {
	id := n.fsm.View().Meta().GetClusterId()
	rec := n.ident.get()
	if id == "" || rec.ClusterID == id && len(rec.Forming) == 0 {
		return nil
	}
	if rec.ClusterID != "" && rec.ClusterID != id {
		return fmt.Errorf("peer %s at %s has data of cluster %s but its identity names cluster %s: "+
			"%s",
			n.cfg.NodeID, n.RaftAddr(), id, rec.ClusterID, raftstore.DamageAdvice)
	}
	err := n.ident.update(func(r *identityRecord) error {
		r.ClusterID, r.Forming = id, nil
		return nil
	})
	// failpoint: cluster-learned
	return err
}
