package raftstore

import (
	"errors"
	"path/filepath"

	raftboltdb "github.com/hashicorp/raft-boltdb/v2"
)

// keyMarks is the key in bolt of the book of package marks. It is next to the term and the vote, so
// that an old raft.db has old marks.
var keyMarks = []byte("HoldfastMarks")

// Marks implements marks.Store.
func (s *Stores) Marks() ([]byte, error) {
	if s.bolt == nil {
		return s.memory, nil
	}
	book, err := s.bolt.Get(keyMarks)
	if errors.Is(err, raftboltdb.ErrKeyNotFound) {
		return nil, nil
	}
	return book, err
}

// SetMarks implements marks.Store. Its error is an ErrDisk.
func (s *Stores) SetMarks(book []byte) error {
	if s.bolt == nil {
		s.memory = book
		return nil
	}
	if err := s.bolt.Set(keyMarks, book); err != nil {
		return &diskError{cause: err}
	}
	return nil
}

// VoteFile returns the file with the term, the vote and the marks; "" in memory.
func (s *Stores) VoteFile() string {
	if s.dir == "" {
		return ""
	}
	return filepath.Join(s.dir, raftFile)
}

// NoteEnd records how far the log reaches on disk, and what the peer has applied. An older log next
// to this raft.db is then refused, also if the peer has not stopped gracefully. Its error is an
// ErrDisk.
func (s *Stores) NoteEnd() error {
	if s.noteEnd == nil {
		return nil
	}
	if err := s.noteEnd(); err != nil {
		return &diskError{cause: err}
	}
	return nil
}
