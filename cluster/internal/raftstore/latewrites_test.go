package raftstore

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

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

// TestRemovalDoesNotWaitForLaterEntries checks that a removal from the beginning, after a
// snapshot, is not held up by entries that arrive all the time.
func TestRemovalDoesNotWaitForLaterEntries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := newSlowLogs()
		s := newLateWrites(slow)
		s.may = func() bool { return true }
		for i := uint64(1); i <= 2; i++ {
			if err := s.StoreLogs(entriesOf(raft.LogCommand, i, i)); err != nil {
				t.Fatal(err)
			}
			synctest.Wait() // entry 1 is being written
		}
		done := make(chan error, 1)
		go func() { done <- s.DeleteRange(1, 1) }()
		slow.allow <- nil
		synctest.Wait()
		if len(done) == 0 {
			t.Error("removal of entry 1: got no answer while entry 2 is being written")
		}
		slow.allow <- nil
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if diff := cmp.Diff([]string{"2"}, reads(t, s)); diff != "" {
			t.Errorf("entries (-want +got):\n%s", diff)
		}
	})
}

// TestHoleIsWrittenInTime checks that entries after a hole, which an installed snapshot leaves in
// bolt, are read under their own index.
func TestHoleIsWrittenInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := newSlowLogs()
		s := newLateWrites(slow)
		s.may = func() bool { return true }
		if err := s.StoreLogs(entriesOf(raft.LogCommand, 1, 2)); err != nil {
			t.Fatal(err)
		}
		done := make(chan error, 1)
		go func() { done <- s.StoreLogs(entriesOf(raft.LogCommand, 9, 9)) }()
		synctest.Wait()
		if len(done) > 0 {
			t.Error("entry 9 after entry 2: got an answer before anything was written")
		}
		close(slow.allow)
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		var l raft.Log
		if err := s.GetLog(9, &l); err != nil || string(l.Data) != "9" {
			t.Errorf("read entry 9: got %q, %v", l.Data, err)
		}
	})
}

// TestCloseWaitsForTheWrite checks that the files are not closed while an entry is written.
func TestCloseWaitsForTheWrite(t *testing.T) {
	dir, slow := t.TempDir(), &slowStore{allow: make(chan struct{})}
	cfg := storeConfig(dir, LogStoreWAL)
	cfg.Wrap = func(l raft.LogStore) raft.LogStore { slow.LogStore = l; return slow }
	s, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	s.WriteLate(func() bool { return true })
	if err := s.Logs.StoreLogs(entriesOf(raft.LogCommand, 1, 2)); err != nil {
		t.Fatal(err)
	}
	closed := make(chan error, 1)
	go func() { closed <- s.Close() }()
	select {
	case err := <-closed:
		t.Fatalf("close while entries are written: got %v, want it to wait", err)
	case <-time.After(20 * time.Millisecond): // nothing must happen for longer than closing takes
	}
	close(slow.allow)
	if err := <-closed; err != nil {
		t.Fatal(err)
	}
	if err := s.late.StoreLogs(entriesOf(raft.LogCommand, 3, 3)); err == nil {
		t.Error("write after the end: got no error")
	}
	opened(t, dir, "", func(s *Stores) {
		if last, err := s.Logs.LastIndex(); err != nil || last != 2 {
			t.Errorf("last entry: got %d, %v, want 2", last, err)
		}
	})
}

// slowStore writes only when it is allowed to.
type slowStore struct {
	raft.LogStore
	allow chan struct{}
}

func (s *slowStore) StoreLogs(logs []*raft.Log) error {
	<-s.allow
	return s.LogStore.StoreLogs(logs)
}

func (s *slowStore) IsMonotonic() bool { return true }
