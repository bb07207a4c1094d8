package raftstore

import (
	"cmp"
	"errors"
	"strings"
	"syscall"
	"testing"

	"github.com/hashicorp/raft"
)

// sink fails to write or to close.
type sink struct {
	raft.SnapshotSink

	write, end error
}

func (s *sink) Write(b []byte) (int, error) { return len(b), s.write }
func (s *sink) Close() error                { return s.end }

// snaps returns a sink, or fails.
type snaps struct {
	raft.SnapshotStore

	sink *sink
	err  error
}

func (s *snaps) Create(raft.SnapshotVersion, uint64, uint64, raft.Configuration, uint64, raft.Transport,
) (raft.SnapshotSink, error) {
	return s.sink, s.err
}

// TestFailedSnapshotIsAWarning checks that the error of the last snapshot is kept until one
// succeeds.
func TestFailedSnapshotIsAWarning(t *testing.T) {
	inner := &snaps{}
	noted := &notedSnaps{SnapshotStore: inner}
	s := &Stores{snapshots: noted}
	for _, tt := range []struct {
		name               string
		create, write, end error
	}{
		{"create", syscall.ENOSPC, nil, nil}, {"works", nil, nil, nil},
		{"write", nil, syscall.ENOSPC, nil}, {"close", nil, nil, syscall.ENOSPC}, {"works again", nil, nil, nil},
	} {
		inner.sink, inner.err = &sink{write: tt.write, end: tt.end}, tt.create
		want := cmp.Or(tt.create, tt.write, tt.end)
		out, err := noted.Create(1, 7, 2, raft.Configuration{}, 1, nil)
		if err == nil {
			if _, err = out.Write([]byte("x")); err == nil {
				err = out.Close()
			}
		}
		if !errors.Is(err, want) {
			t.Errorf("%s: got error %v, want %v", tt.name, err, want)
		}
		got := s.Warning()
		if (got == nil) != (want == nil) || got != nil && !strings.Contains(got.Error(), "write snapshot: no space left") {
			t.Errorf("%s: got warning %v, want that of %v", tt.name, got, want)
		}
	}
}
