package raftstore

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/raft"
)

// slowLogs is a store that writes only when it is allowed to, and counts its writes.
type slowLogs struct {
	*raft.InmemStore
	allow  chan error
	writes int
}

func (s *slowLogs) StoreLogs(logs []*raft.Log) error {
	if err := <-s.allow; err != nil {
		return err
	}
	s.writes++
	return s.InmemStore.StoreLogs(logs)
}

func newSlowLogs() *slowLogs {
	return &slowLogs{InmemStore: raft.NewInmemStore(), allow: make(chan error)}
}

func entriesOf(kind raft.LogType, from, to uint64) (logs []*raft.Log) {
	for i := from; i <= to; i++ {
		logs = append(logs, &raft.Log{Index: i, Term: 1, Type: kind, Data: fmt.Append(nil, i)})
	}
	return logs
}

// reads returns the first and the last index, and the data of the entries between.
func reads(t *testing.T, s raft.LogStore) (got []string) {
	t.Helper()
	first, err1 := s.FirstIndex()
	last, err2 := s.LastIndex()
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	for i := max(first, 1); i <= last; i++ {
		var l raft.Log
		if err := s.GetLog(i, &l); err != nil {
			t.Fatalf("read entry %d: %v", i, err)
		}
		got = append(got, string(l.Data))
	}
	if err := s.GetLog(last+1, new(raft.Log)); !errors.Is(err, raft.ErrLogNotFound) {
		t.Errorf("read entry %d: got %v, want %v", last+1, err, raft.ErrLogNotFound)
	}
	return got
}

func isSynced(s *lateWrites, index uint64) bool {
	ok, _ := s.synced(index)
	return ok
}

func TestLateWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := newSlowLogs()
		s := newLateWrites(slow)
		s.may = func() bool { return true }
		for from := uint64(1); from <= 5; from += 2 {
			if err := s.StoreLogs(entriesOf(raft.LogCommand, from, from+1)); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		want := []string{"1", "2", "3", "4", "5", "6"}
		if diff := cmp.Diff(want, reads(t, s)); diff != "" {
			t.Errorf("entries that are not on disk (-want +got):\n%s", diff)
		}
		if isSynced(s, 1) || !isSynced(s, 0) {
			t.Error("entry 1: got on disk, want it pending")
		}
		slow.allow <- nil
		synctest.Wait()
		if !isSynced(s, 2) || isSynced(s, 3) {
			t.Error("got another part than the first two entries on disk")
		}
		slow.allow <- nil // the rest, at once
		synctest.Wait()
		if !isSynced(s, 6) || slow.writes != 2 {
			t.Errorf("on disk: got %t after %d writes, want all after 2", isSynced(s, 6), slow.writes)
		}
		if diff := cmp.Diff(want, reads(t, s)); diff != "" {
			t.Errorf("entries on disk (-want +got):\n%s", diff)
		}
	})
}

// TestWritesInTime checks that these calls return only when the store has everything: what a
// follower stores, what a single voter stores, a change of the configuration, and a removal.
func TestWritesInTime(t *testing.T) {
	for _, tt := range []struct {
		name string
		may  bool
		call func(s *lateWrites) error
		want []string
	}{
		{"not the leader of others", false, func(s *lateWrites) error {
			return s.StoreLogs(entriesOf(raft.LogCommand, 3, 3))
		}, []string{"1", "2", "3"}},
		{"configuration", true, func(s *lateWrites) error {
			return s.StoreLogs(entriesOf(raft.LogConfiguration, 3, 3))
		}, []string{"1", "2", "3"}},
		{"end removed", true, func(s *lateWrites) error { return s.DeleteRange(2, 2) }, []string{"1"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				slow, may := newSlowLogs(), true
				s := newLateWrites(slow)
				s.may = func() bool { return may }
				if err := s.StoreLogs(entriesOf(raft.LogCommand, 1, 2)); err != nil {
					t.Fatal(err)
				}
				may = tt.may
				done := make(chan error, 1)
				go func() { done <- tt.call(s) }()
				synctest.Wait()
				if len(done) > 0 {
					t.Fatal("got an answer before anything was written")
				}
				close(slow.allow)
				if err := <-done; err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(tt.want, reads(t, slow.InmemStore)); diff != "" {
					t.Errorf("entries on disk (-want +got):\n%s", diff)
				}
			})
		})
	}
}

func TestLateWriteFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow, failed := newSlowLogs(), errors.New("closed")
		s := newLateWrites(slow)
		s.may = func() bool { return true }
		if err := s.StoreLogs(entriesOf(raft.LogCommand, 1, 2)); err != nil {
			t.Fatal(err)
		}
		slow.allow <- failed
		synctest.Wait()
		for name, err := range map[string]error{
			"late write": s.StoreLogs(entriesOf(raft.LogCommand, 3, 3)), "removal": s.DeleteRange(1, 1),
			"write in time": s.StoreLogs(entriesOf(raft.LogConfiguration, 3, 3)),
		} {
			if !errors.Is(err, failed) {
				t.Errorf("%s: got %v, want %v", name, err, failed)
			}
		}
		if isSynced(s, 1) {
			t.Error("entry 1: got on disk after an error")
		}
	})
}
