package raftstore

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/raft"
)

// stored returns a directory with entries 3 to 20 of term 3, a vote, and a snapshot of index 10.
func stored(t *testing.T, store string) string {
	t.Helper()
	dir := filled(t, store, 20)
	opened(t, dir, "", func(s *Stores) {
		err := errors.Join(s.Stable.SetUint64(keyLastVoteTerm, 2), s.Stable.Set(keyLastVoteCand, []byte("n2")),
			s.Logs.DeleteRange(1, 2))
		if err != nil {
			t.Fatal(err)
		}
		snapshot(t, s, 10)
	})
	return dir
}

func snapshot(t *testing.T, s *Stores, index uint64) {
	t.Helper()
	_, trans := raft.NewInmemTransport("")
	sink, err := s.Snaps.Create(raft.SnapshotVersionMax, index, 3, raft.Configuration{}, 1, trans)
	if err != nil {
		t.Fatal(err)
	}
	_, err = sink.Write([]byte("the state"))
	if err := errors.Join(err, sink.Close()); err != nil {
		t.Fatal(err)
	}
}

// files returns the bytes and the time of the last change of each file in a directory.
func files(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		all[path] = info.ModTime().String()
		if d.IsDir() {
			return nil
		}
		data, err := os.ReadFile(path)
		all[path] += string(data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// edit changes the only file that a pattern matches.
func edit(t *testing.T, dir, pattern string, how func([]byte) []byte) {
	t.Helper()
	all, err := filepath.Glob(filepath.Join(dir, pattern))
	if err != nil || len(all) != 1 {
		t.Fatalf("find %s: got %v, %v, want one file", pattern, all, err)
	}
	data, err := os.ReadFile(all[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(all[0], how(data), 0o600); err != nil {
		t.Fatal(err)
	}
}

// flip flips a bit at a text, everywhere in the file.
func flip(text string) func([]byte) []byte {
	return func(b []byte) []byte {
		return []byte(strings.ReplaceAll(string(b), text, string([]byte{text[0] ^ 1})+text[1:]))
	}
}

func TestVerify(t *testing.T) {
	truncated := func(b []byte) []byte { return b[:len(b)/2] }
	bolt := func(do func(s *Stores) error) func(*testing.T, string) {
		return func(t *testing.T, dir string) {
			opened(t, dir, "", func(s *Stores) {
				if err := do(s); err != nil {
					t.Fatal(err)
				}
			})
		}
	}
	in := func(pattern string, how func([]byte) []byte) func(*testing.T, string) {
		return func(t *testing.T, dir string) { edit(t, dir, pattern, how) }
	}
	for _, tt := range []struct {
		name, store string
		damage      func(*testing.T, string)
		want        string // STORE FILE INDEX: DAMAGE; or empty
	}{
		{"whole", LogStoreWAL, func(*testing.T, string) {}, ""},
		{"whole", LogStoreBolt, func(*testing.T, string) {}, ""},
		{"a bit of an entry", LogStoreWAL, in("wal/*.wal", flip("entry 7")), "log wal/*.wal 7: "},
		{"a bit of an entry", LogStoreBolt, in("raft.db", flip("entry 7")),
			"log raft.db 7: entry 7 is damaged: checksum mismatch"},
		{"a bit of the last entry", LogStoreBolt, in("raft.db", flip("entry 20")), "log raft.db 20: "},
		{"a bit of the last entry", LogStoreWAL, in("wal/*.wal", flip("entry 20")),
			"log wal/*.wal 20: it ends with entry 19, but had entry 20"},
		{"truncated", LogStoreWAL, in("wal/*.wal", func(b []byte) []byte { return b[:len(b)-1] }),
			"log wal/*.wal 21: entry 21 is damaged: the file is truncated"},
		{"a lost segment", LogStoreWAL, func(t *testing.T, dir string) { eachSegment(t, dir, os.Remove) },
			"log wal/*.wal 3: the file is missing"},
		{"a truncated list", LogStoreWAL, in("wal/wal-meta.db", truncated), "log wal/wal-meta.db 0: "},
		{"a lost list", LogStoreWAL, func(t *testing.T, dir string) {
			if err := os.Remove(filepath.Join(dir, walDir, walMeta)); err != nil {
				t.Fatal(err)
			}
		}, "log wal/wal-meta.db 0: the file is missing"},
		{"truncated", LogStoreBolt, in("raft.db", truncated), "stable store raft.db 0: "},
		{"truncated", LogStoreWAL, in("raft.db", truncated), "stable store raft.db 0: "},
		{"empty", LogStoreWAL, in("raft.db", func([]byte) []byte { return nil }), "stable store raft.db 0: raft.db is empty"},
		{"a hole", LogStoreBolt, bolt(func(s *Stores) error { return s.Logs.DeleteRange(15, 16) }),
			"log raft.db 15: entries 15 to 16 are missing"},
		{"a hole before the snapshot", LogStoreBolt, bolt(func(s *Stores) error { return s.Logs.DeleteRange(7, 8) }), ""},
		{"a gap behind the snapshot", LogStoreBolt, bolt(func(s *Stores) error { return s.Logs.DeleteRange(3, 11) }),
			"log raft.db 11: entries 11 to 11 are missing"},
		{"a gap behind the snapshot", LogStoreWAL, bolt(func(s *Stores) error { return s.Logs.DeleteRange(3, 11) }),
			"log wal/*.wal 11: entries 11 to 11 are missing"},
		{"an old term", LogStoreWAL, bolt(func(s *Stores) error { return s.Stable.SetUint64(keyCurrentTerm, 2) }),
			"log wal/*.wal 3: entry 3 is damaged: it has term 3, but the stable store has term 2"},
		{"an old vote", LogStoreWAL, bolt(func(s *Stores) error { return s.Stable.SetUint64(keyCurrentTerm, 1) }),
			"stable store raft.db 0: it has a vote in term 2, but term 1"},
		{"a bit of a snapshot", LogStoreWAL, in("snapshots/*/state.bin", flip("the state")),
			"snapshots snapshots/*/state.bin 10: the snapshot of index 10 is damaged: checksum mismatch"},
	} {
		t.Run(tt.store+", "+tt.name, func(t *testing.T) {
			dir := stored(t, tt.store)
			tt.damage(t, dir)
			before := files(t, dir)
			cfg := &Config{Dir: dir, ReadOnly: true, Logger: slog.New(slog.DiscardHandler)}
			if err := cfg.ExpectLog("c-1", true); err != nil {
				t.Fatal(err)
			}
			all, err := Verify(cfg)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(before, files(t, dir)); diff != "" {
				t.Error("verify changed the directory")
			}
			got := ""
			for _, v := range all {
				if v.Damage != nil && got == "" {
					got = fmt.Sprintf("%s %s %d: %v", v.Store, v.File, v.Index, v.Damage)
				}
			}
			want := tt.want
			if found, err := filepath.Glob(filepath.Join(dir, walDir, "*.wal")); err == nil && len(found) == 1 {
				want = strings.ReplaceAll(want, "wal/*.wal", filepath.Join(walDir, filepath.Base(found[0])))
			}
			if match, _ := filepath.Glob(filepath.Join(dir, "snapshots", "*-*")); len(match) == 1 {
				want = strings.ReplaceAll(want, "snapshots/*", "snapshots/"+filepath.Base(match[0]))
			}
			if tt.name == "a lost segment" {
				want = "log " + strings.TrimPrefix(got, "log ") // its name is known from the list only
			}
			if tt.want == "" && got != "" || !strings.HasPrefix(got, want) {
				t.Errorf("damage: got %q, want %q", got, want)
			}
		})
	}
}

func TestVerifyListsContents(t *testing.T) {
	for store, want := range map[string][]string{
		LogStoreBolt: {"raft.db: term 3, vote for n2 in term 2", "raft.db: entries 3 to 20",
			"snapshots: 1, the newest has index 10 and term 3"},
		LogStoreWAL: {"raft.db: term 3, vote for n2 in term 2", "wal: entries 3 to 20, segments: 1",
			"snapshots: 1, the newest has index 10 and term 3"},
	} {
		all, err := Verify(&Config{Dir: stored(t, store), ReadOnly: true})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, v := range all {
			got = append(got, v.File+": "+v.Contents)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", store, diff)
		}
	}
}

func TestVerifyRefusesRunningPeer(t *testing.T) {
	dir := stored(t, LogStoreWAL)
	opened(t, dir, "", func(*Stores) {
		_, err := Verify(&Config{Dir: dir, ReadOnly: true})
		_, want := Open(storeConfig(dir, ""))
		if err == nil || want == nil || err.Error() != want.Error() {
			t.Errorf("verify: got %v, want the error of a second start, %v", err, want)
		}
	})
}
