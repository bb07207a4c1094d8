// Package identity owns a peer's permanent record of itself in its data directory, apart from its
// Raft log: its name, its instance, its cluster, and whether it may vote. It must not know who
// changes it and why.
package identity

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"github.com/google/uuid"

	"github.com/holdfast-metal/holdfast/cluster/internal/raftstore"
)

const identityFile = "identity.json"

// Store is a peer's permanent record of itself, apart from its Raft log.
type Store struct {
	path string // empty in memory

	mu  sync.Mutex
	rec Record
}

// Record is the content of identity.json.
type Record struct {
	PeerID string `json:"node_id"`
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
	Forming []Founder `json:"forming,omitempty"`
	// Recovered is true if Recover made this peer the first one of its cluster. Peers of its
	// former cluster may still run at the addresses that it joins.
	Recovered bool `json:"recovered,omitempty"`
}

// ExpectLog records in the configuration of the stores whether the data directory must hold
// a Raft log.
func (r Record) ExpectLog(cfg *raftstore.Config) error {
	return cfg.ExpectLog(r.ClusterID, len(r.Forming) == 0 && (r.Admitted || r.ClusterID != ""))
}

// Founder is a peer of a cluster's first configuration.
type Founder struct {
	ID       string `json:"id"`
	Instance string `json:"instance"`
	RaftAddr string `json:"raft_addr"`
}

// FounderIDs returns the ids of the founders of a cluster that is being formed.
func (r Record) FounderIDs() []string {
	var ids []string
	for _, f := range r.Forming {
		ids = append(ids, f.ID)
	}
	return ids
}

// Open reads the identity in a data directory, or creates one in a new directory.
// It never overwrites the identity of another peer.
func Open(dir, peerID string) (*Store, error) {
	if dir == "" {
		return &Store{rec: newRecord(peerID)}, nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make data directory: %w", err)
	}
	if err := os.Chmod(dir, 0o700); err != nil { //nolint:gosec // it is a directory
		return nil, fmt.Errorf("restrict access to the data directory: %w", err)
	}
	id, err := Read(dir)
	if errors.Is(err, fs.ErrNotExist) {
		for _, name := range raftstore.Names() {
			if _, err := os.Stat(filepath.Join(dir, name)); err == nil {
				return nil, fmt.Errorf("data directory %s has raft state (%s) but no %s: "+
					"%s",
					dir, name, identityFile, raftstore.DamageAdvice)
			}
		}
		return id, id.store(newRecord(peerID))
	}
	if err != nil {
		return nil, err
	}
	if id.rec.PeerID != peerID {
		return nil, fmt.Errorf("data directory %s belongs to peer %q, but this peer is %q: "+
			"start it with its own directory or node id",
			dir, id.rec.PeerID, peerID)
	}
	return id, nil
}

// Read reads the identity in a data directory. If there is none, the error is
// fs.ErrNotExist, and the returned identity is empty.
func Read(dir string) (*Store, error) {
	id := &Store{path: filepath.Join(dir, identityFile)}
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

func newRecord(peerID string) Record {
	return Record{PeerID: peerID, Instance: uuid.NewString()}
}

// Get returns a copy of the record.
func (i *Store) Get() Record {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.rec
}

// Update changes the identity. If it returns nil, the identity is on disk.
func (i *Store) Update(change func(*Record) error) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	rec := i.rec
	if err := change(&rec); err != nil {
		return err
	}
	return i.store(rec)
}

// store requires the lock, or that the identity is not shared yet.
func (i *Store) store(rec Record) error {
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

// LoseVote makes this directory that of a peer that has lost its data, because it is old.
func (i *Store) LoseVote(why string) error {
	return i.Update(func(r *Record) error {
		r.Instance, r.Admitted, r.AdmittedAt, r.Stale = uuid.NewString(), false, 0, why
		return nil
	})
}
