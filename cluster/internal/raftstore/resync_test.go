package raftstore

import (
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/raft"
	"github.com/hashicorp/raft-wal/fs"
	"github.com/hashicorp/raft-wal/types"
)

// A restarted process finds an entry that the one before had not synced. Raft acknowledges it
// without another write, so it must be on the disk, also after a sync that failed.
func TestFoundEntryIsOnDisk(t *testing.T) {
	for _, tt := range []struct {
		name       string
		left, fail int
	}{
		{"killed before the sync", 1, -1},
		{"the sync failed", math.MaxInt, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir, p := t.TempDir(), newPower()
			cfg := storeConfig(dir, LogStoreWAL)
			cfg.segmentSize, cfg.vfs, cfg.syncDir, cfg.Offline = 4096, losingFS{fs.New(), p}, p.syncDir, true
			open := func() *Stores {
				t.Helper()
				s, err := Open(cfg)
				if err != nil {
					t.Fatal(err)
				}
				return s
			}
			s := open()
			if err := s.Logs.StoreLog(&raft.Log{Index: 1, Term: 1, Data: []byte("one")}); err != nil {
				t.Fatal(err)
			}
			p.set(tt.left, tt.fail)
			if err := s.Logs.StoreLog(&raft.Log{Index: 2, Term: 1, Data: []byte("two")}); err == nil {
				t.Fatal("write without a sync: got no error")
			}
			_ = s.close() // the file handles, as the end of the process does
			p.set(math.MaxInt, -1)
			s = open()
			last, err := s.Logs.LastIndex()
			if err != nil || last != 2 {
				t.Fatalf("last entry after the restart: got %d, %v, want 2", last, err)
			}
			if len(p.writes) > 0 || len(p.names) > 0 {
				t.Errorf("not on disk: got %d writes and %d names, want none", len(p.writes), len(p.names))
			}
			_ = s.close()
		})
	}
}

// syncNoter notes the files that are written completely and then synced.
type syncNoter struct {
	*fs.FS
	note func(path string)
}

func (n syncNoter) OpenWriter(dir, name string) (types.WritableFile, error) {
	f, err := n.FS.OpenWriter(dir, name)
	if err != nil {
		return nil, err
	}
	return &notedFile{WritableFile: f, path: filepath.Join(dir, name), note: n.note}, nil
}

type notedFile struct {
	types.WritableFile
	path    string
	note    func(path string)
	written int
}

func (f *notedFile) WriteAt(b []byte, at int64) (int, error) {
	f.written += len(b)
	return f.WritableFile.WriteAt(b, at)
}

func (f *notedFile) Sync() error {
	st, err := os.Stat(f.path)
	if err == nil && f.written > 0 && (filepath.Ext(f.path) == ".wal" || int64(f.written) == st.Size()) {
		f.note(f.path)
	}
	return f.WritableFile.Sync()
}

// Whatever a start reads from bolt, such as the vote, is written again and synced before, and the
// directories are synced.
func TestStartSyncsBoltAndDirectories(t *testing.T) {
	for _, store := range []string{LogStoreWAL, LogStoreBolt} {
		t.Run(store, func(t *testing.T) {
			dir := filled(t, store, 3)
			opened(t, dir, store, func(s *Stores) { snapshot(t, s, 2) })
			want := map[string]bool{".": true, "snapshots": true, "raft.db": true}
			if store == LogStoreWAL {
				want["wal"], want["wal/wal-meta.db"] = true, true
				eachSegment(t, dir, func(path string) error { want["wal/"+filepath.Base(path)] = true; return nil })
			}
			all, err := filepath.Glob(filepath.Join(dir, "snapshots", "*"))
			if err != nil || len(all) != 1 {
				t.Fatalf("snapshots: got %v, %v", all, err)
			}
			want["snapshots/"+filepath.Base(all[0])] = true
			got := map[string]bool{}
			note := func(path string) {
				rel, err := filepath.Rel(dir, path)
				if err != nil {
					t.Fatal(err)
				}
				got[rel] = true
			}
			cfg := storeConfig(dir, store)
			cfg.syncDir = func(dir string) error { note(dir); return SyncDir(dir) }
			cfg.vfs = syncNoter{fs.New(), note}
			openedWith(t, cfg, func(*Stores) {
				if diff := cmp.Diff(slices.Sorted(maps.Keys(want)), slices.Sorted(maps.Keys(got))); diff != "" {
					t.Errorf("synced at the start (-want +got):\n%s", diff)
				}
			})
		})
	}
}
