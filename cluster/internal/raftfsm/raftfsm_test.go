package raftfsm

import (
	"errors"
	"io"
	"testing"

	"github.com/hashicorp/raft"

	"github.com/holdfast-metal/holdfast/cluster/internal/raftstore"
	"github.com/holdfast-metal/holdfast/fsm"
)

// sink stores a snapshot, or fails.
type sink struct {
	err error
}

func (s sink) Write(p []byte) (int, error) { return len(p), s.err }
func (s sink) Close() error                { return s.err }
func (sink) ID() string                    { return "s" }
func (sink) Cancel() error                 { return nil }

// Only entries in a stored snapshot are subtracted: none that arrived while it was written, and
// none of a failed snapshot.
func TestOnlyStoredSnapshotsCount(t *testing.T) {
	f := New(fsm.New())
	index := uint64(0)
	apply := func() {
		index++
		f.Apply(&raft.Log{Index: index, Term: 1})
		f.meter.Add(make([]byte, 100))
	}
	take := func() raft.FSMSnapshot {
		s, err := f.Snapshot()
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	want := func(name string, w raftstore.LogSize) {
		t.Helper()
		if got := f.meter.Since(); got != w {
			t.Errorf("%s: got %+v, want %+v", name, got, w)
		}
	}
	apply()
	old := take()
	apply()
	s := take()
	apply()
	broken := errors.New("disk full")
	if err := s.Persist(sink{broken}); !errors.Is(err, broken) {
		t.Fatalf("got %v, want %v", err, broken)
	}
	want("failed snapshot", raftstore.LogSize{Entries: 6, Bytes: 300})
	if err := s.Persist(sink{}); err != nil {
		t.Fatal(err)
	}
	want("stored snapshot", raftstore.LogSize{Entries: 2, Bytes: 100})
	if err := old.Persist(sink{}); err != nil {
		t.Fatal(err)
	}
	want("older snapshot", raftstore.LogSize{Entries: 2, Bytes: 100})
	r, w := io.Pipe()
	go func() {
		snap, err := fsm.New().Snapshot()
		if err == nil {
			_, err = snap.WriteTo(w)
		}
		w.CloseWithError(err)
	}()
	if err := f.Restore(r); err != nil {
		t.Fatal(err)
	}
	want("snapshot of the leader", raftstore.LogSize{})
}
