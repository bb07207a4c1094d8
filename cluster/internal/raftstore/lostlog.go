package raftstore

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	raftboltdb "github.com/hashicorp/raft-boltdb/v2"
)

// A peer without raft.db has lost its term, its vote and the entries after its newest
// snapshot. If it started, it could vote twice in a term and elect a leader that lacks
// acknowledged writes. So it refuses to start.

// ExpectLog records whether the data directory must hold a Raft log: the peer is a member
// of a cluster, or it has written a snapshot. The cluster id is for error texts.
func (c *Config) ExpectLog(clusterID string, member bool) error {
	c.clusterID = clusterID
	c.logExpected = member
	if c.Dir == "" || c.logExpected {
		return nil
	}
	snaps, err := os.ReadDir(filepath.Join(c.Dir, "snapshots"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read snapshots: %w", err)
	}
	for _, s := range snaps {
		c.logExpected = c.logExpected || s.IsDir() && !strings.HasSuffix(s.Name(), ".tmp")
	}
	return nil
}

// checkLogFile returns an error if the data directory must hold a Raft log but raft.db is
// missing or empty. It runs before bolt would create the file.
func (c *Config) checkLogFile(path string) error {
	if !c.logExpected {
		return nil
	}
	switch st, err := os.Stat(path); {
	case errors.Is(err, fs.ErrNotExist):
		return c.lostLog("raft.db is missing")
	case err != nil:
		return fmt.Errorf("open raft log: %w", err)
	case st.Size() == 0:
		return c.lostLog("raft.db is empty")
	}
	return nil
}

// checkLogState returns an error if raft.db has no term but must have one: it was created
// after the peer's own file was lost. It runs before anything is removed from the
// directory.
func (c *Config) checkLogState(bolt *raftboltdb.BoltStore) error {
	if !c.logExpected {
		return nil
	}
	term, err := bolt.GetUint64(keyCurrentTerm)
	if err != nil && !errors.Is(err, raftboltdb.ErrKeyNotFound) {
		return fmt.Errorf("read the raft term: %w", err)
	}
	if term == 0 {
		return c.lostLog("raft.db is new")
	}
	return nil
}

func (c *Config) lostLog(how string) error { return &lostLogError{c.Dir, how, c.clusterID} }

// lostLogError means that a peer has lost raft.db.
type lostLogError struct{ dir, how, clusterID string }

// Error implements error.
func (e *lostLogError) Error() string {
	return fmt.Sprintf("data directory %s has lost its raft log (%s; the peer belongs to cluster %q): %s",
		e.dir, e.how, e.clusterID, DamageAdvice)
}
