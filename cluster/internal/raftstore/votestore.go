package raftstore

import (
	"bytes"
	"sync"

	"github.com/hashicorp/raft"
)

// Keys under which Raft stores its term and its vote.
var (
	keyCurrentTerm  = []byte("CurrentTerm")
	keyLastVoteTerm = []byte("LastVoteTerm")
	keyLastVoteCand = []byte("LastVoteCand")
)

// voteStore makes the vote safe against a crash between its two writes
// (hashicorp/raft#661). Raft writes the term, then the candidate. A crash between the two
// would combine the new term with the old candidate, and Raft would grant that candidate a
// vote without any check. So the term is held back until the candidate is on disk. A crash
// then leaves an old term, in which no vote is granted any more.
type voteStore struct {
	raft.StableStore

	mu   sync.Mutex
	held bool
	term uint64
}

// SetUint64 implements raft.StableStore.
func (s *voteStore) SetUint64(key []byte, v uint64) error {
	if !bytes.Equal(key, keyLastVoteTerm) {
		return s.StableStore.SetUint64(key, v)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held, s.term = true, v
	return nil
}

// Set implements raft.StableStore.
func (s *voteStore) Set(key, val []byte) error {
	if !bytes.Equal(key, keyLastVoteCand) {
		return s.StableStore.Set(key, val)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	held, term := s.held, s.term
	s.held = false // Raft abandons a vote whose write fails
	if err := s.StableStore.Set(key, val); err != nil {
		return err
	}
	if !held {
		return nil
	}
	// failpoint: vote-candidate-stored
	return s.StableStore.SetUint64(keyLastVoteTerm, term)
}
