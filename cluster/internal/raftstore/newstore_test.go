package raftstore

import (
	"path/filepath"
	"testing"

	"github.com/hashicorp/raft"

	"github.com/holdfast-metal/holdfast/cluster/internal/segment"
)

func TestNewDirectoriesUseSegments(t *testing.T) {
	for _, tt := range []struct {
		name     string
		before   func(t *testing.T, dir string)
		readOnly bool
		want     string
	}{
		{"new", func(*testing.T, string) {}, false, LogStoreWAL},
		{"new, read only", func(*testing.T, string) {}, true, LogStoreBolt},
		{"opened once", func(t *testing.T, dir string) { opened(t, dir, LogStoreBolt, func(*Stores) {}) },
			false, LogStoreBolt},
		{"a term in bolt", func(t *testing.T, dir string) {
			opened(t, dir, LogStoreBolt, func(s *Stores) {
				if err := s.Stable.SetUint64(keyCurrentTerm, 1); err != nil {
					t.Fatal(err)
				}
			})
		}, false, LogStoreBolt},
		{"an entry in bolt", func(t *testing.T, dir string) {
			opened(t, dir, LogStoreBolt, func(s *Stores) {
				if err := s.Logs.StoreLog(&raft.Log{Index: 1, Term: 1}); err != nil {
					t.Fatal(err)
				}
			})
		}, false, LogStoreBolt},
		{"segments", func(t *testing.T, dir string) { opened(t, dir, LogStoreWAL, func(*Stores) {}) }, false, LogStoreWAL},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			tt.before(t, dir)
			cfg := storeConfig(dir, "")
			cfg.ReadOnly = tt.readOnly
			s, err := Open(cfg)
			if err != nil {
				t.Fatal(err)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			got := LogStoreBolt
			if _, err := segment.Load(filepath.Join(dir, walDir)); err == nil {
				got = LogStoreWAL
			}
			if got != tt.want {
				t.Errorf("store of the log: got %s, want %s", got, tt.want)
			}
		})
	}
}
