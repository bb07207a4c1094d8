package raftstore

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/hashicorp/raft"
)

// TestEntriesBeforeAnInstalledSnapshot checks that a peer that dies between an installed snapshot
// and the removal of its entries can store the entries after the snapshot. It keeps entries that
// it needs.
func TestEntriesBeforeAnInstalledSnapshot(t *testing.T) {
	for _, tt := range []struct {
		name, store string
		snapshot    uint64
		damaged     bool
		last, next  uint64 // the last entry after the start, and the next one that Raft stores
	}{
		{"newer", LogStoreWAL, 100, false, 0, 101},
		{"newer, in bolt", LogStoreBolt, 100, false, 9, 101},
		{"newer, damaged", LogStoreWAL, 100, true, 9, 10},
		{"of the last entry", LogStoreWAL, 9, false, 9, 10},
		{"older", LogStoreWAL, 8, false, 9, 10},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := filled(t, tt.store, 9)
			opened(t, dir, "", func(s *Stores) { install(t, s, tt.snapshot) })
			if tt.damaged {
				damageSnapshots(t, dir)
			}
			cfg := storeConfig(dir, "")
			cfg.Offline = true // a refused entry is an error
			openedWith(t, cfg, func(s *Stores) {
				if last, err := s.Logs.LastIndex(); err != nil || last != tt.last {
					t.Errorf("last entry: got %d, %v, want %d", last, err, tt.last)
				}
				if err := s.Logs.StoreLog(&raft.Log{Index: tt.next, Term: 3}); err != nil {
					t.Errorf("store entry %d: %v", tt.next, err)
				}
			})
		})
	}
}

// install stores a snapshot as Raft does when it receives one.
func install(t *testing.T, s *Stores, index uint64) {
	t.Helper()
	_, trans := raft.NewInmemTransport("")
	sink, err := s.Snaps.Create(1, index, 3, raft.Configuration{}, 1, trans)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := sink.Write([]byte("state")); err != nil {
		t.Fatal(err)
	}
	if err := sink.Close(); err != nil {
		t.Fatal(err)
	}
}

func damageSnapshots(t *testing.T, dir string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "snapshots", "*", "state.bin"))
	if err != nil || len(files) != 1 {
		t.Fatalf("snapshots: got %v, %v, want one", files, err)
	}
	if err := os.WriteFile(files[0], []byte("stale"), 0o600); err != nil {
		t.Fatal(err)
	}
}
