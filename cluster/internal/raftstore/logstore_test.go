package raftstore

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/raft"
)

// testSegmentSize makes tests faster, which read whole segments.
const testSegmentSize = 1 << 20

func storeConfig(dir, store string) *Config {
	return &Config{Dir: dir, LogStore: store, Logger: slog.New(slog.DiscardHandler), segmentSize: testSegmentSize}
}

// opened calls a function with the stores of a directory, and closes them.
func opened(t *testing.T, dir, store string, do func(*Stores)) {
	t.Helper()
	openedWith(t, storeConfig(dir, store), do)
}

func openedWith(t *testing.T, cfg *Config, do func(*Stores)) {
	t.Helper()
	s, err := Open(cfg)
	if err != nil {
		t.Fatalf("open with %q: %v", cfg.LogStore, err)
	}
	do(s)
	if err := s.Close(); err != nil {
		t.Fatalf("close with %q: %v", cfg.LogStore, err)
	}
}

// filled creates a directory with entries 1 to n of term 3 in a store.
func filled(t *testing.T, store string, n uint64) string {
	t.Helper()
	dir := t.TempDir()
	opened(t, dir, store, func(s *Stores) {
		if err := s.Stable.SetUint64(keyCurrentTerm, 3); err != nil {
			t.Fatal(err)
		}
		for i := uint64(1); i <= n; i++ {
			if err := s.Logs.StoreLog(&raft.Log{Index: i, Term: 3, Data: fmt.Appendf(nil, "entry %d", i)}); err != nil {
				t.Fatal(err)
			}
		}
	})
	return dir
}

// contents returns all entries, as "index/term data", and the term.
func contents(t *testing.T, s *Stores) []string {
	t.Helper()
	term, err := s.Stable.GetUint64(keyCurrentTerm)
	first, err1 := s.Logs.FirstIndex()
	last, err2 := s.Logs.LastIndex()
	if err := errors.Join(err, err1, err2); err != nil {
		t.Fatal(err)
	}
	got := []string{fmt.Sprintf("term %d", term)}
	for i := first; last > 0 && i <= last; i++ {
		var l raft.Log
		if err := s.Logs.GetLog(i, &l); err != nil {
			t.Fatal(err)
		}
		got = append(got, fmt.Sprintf("%d/%d %s", l.Index, l.Term, l.Data))
	}
	return got
}

func entriesTo(first, last uint64) []string {
	want := []string{"term 3"}
	for i := first; i <= last; i++ {
		want = append(want, fmt.Sprintf("%d/3 entry %d", i, i))
	}
	return want
}

// holds checks that a directory has exactly these entries, in that store.
func holds(t *testing.T, dir, store string, want []string) {
	t.Helper()
	opened(t, dir, store, func(s *Stores) {
		if diff := cmp.Diff(want, contents(t, s)); diff != "" {
			t.Errorf("entries in %q (-want +got):\n%s", store, diff)
		}
		m, ok := s.Logs.(raft.MonotonicLogStore)
		if got := ok && m.IsMonotonic(); got != (store == LogStoreWAL) {
			t.Errorf("open with %q: got monotonic %v", store, got)
		}
	})
	_, err := os.Stat(filepath.Join(dir, walDir))
	if got := err == nil; got != (store == LogStoreWAL) {
		t.Errorf("open with %q: got segments %v", store, got)
	}
}

// A log stays in its store. Another one is refused with the remedy, and nothing is changed.
func TestStoreOfLogIsFixed(t *testing.T) {
	other := map[string]string{LogStoreBolt: LogStoreWAL, LogStoreWAL: LogStoreBolt}
	for _, store := range []string{LogStoreBolt, LogStoreWAL} {
		for _, n := range []uint64{0, 5} {
			t.Run(fmt.Sprintf("%s, %d entries", store, n), func(t *testing.T) {
				dir := filled(t, store, n)
				s, err := Open(storeConfig(dir, other[store]))
				if err == nil {
					_ = s.Close()
					t.Fatalf("open with %q: got no error", other[store])
				}
				for _, want := range []string{fmt.Sprintf("log store is %q", other[store]), dir, "set log_store to " + store,
					"or move the directory away"} {
					if !strings.Contains(err.Error(), want) {
						t.Errorf("error: want %q in it, got %v", want, err)
					}
				}
				opened(t, dir, "", func(s *Stores) {
					if diff := cmp.Diff(entriesTo(1, n), contents(t, s)); diff != "" {
						t.Errorf("entries (-want +got):\n%s", diff)
					}
				})
				holds(t, dir, store, entriesTo(1, n))
			})
		}
	}
}

func TestLostOrDamagedSegmentsAreRefused(t *testing.T) {
	for _, tt := range []struct {
		name   string
		damage func(t *testing.T, dir string)
	}{
		{"lost", func(t *testing.T, dir string) {
			if err := os.RemoveAll(filepath.Join(dir, walDir)); err != nil {
				t.Fatal(err)
			}
		}},
		{"no segment", func(t *testing.T, dir string) { eachSegment(t, dir, os.Remove) }},
		{"cut off", func(t *testing.T, dir string) {
			eachSegment(t, dir, func(path string) error { return os.Truncate(path, 10) })
		}},
		{"a flipped bit", func(t *testing.T, dir string) {
			eachSegment(t, dir, func(path string) error {
				data, err := os.ReadFile(path)
				if err != nil {
					return err
				}
				data[strings.Index(string(data), "entry 3")] ^= 1
				return os.WriteFile(path, data, 0o600)
			})
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := filled(t, LogStoreWAL, 20)
			tt.damage(t, dir)
			for _, store := range []string{"", LogStoreWAL} {
				s, err := Open(storeConfig(dir, store))
				if err == nil {
					_ = s.Close()
					t.Fatalf("open with %q: got no error", store)
				}
				if !strings.Contains(err.Error(), DamageAdvice) {
					t.Errorf("error: want a remedy, got %v", err)
				}
			}
		})
	}
}

func eachSegment(t *testing.T, dir string, do func(path string) error) {
	t.Helper()
	all, err := filepath.Glob(filepath.Join(dir, walDir, "*.wal"))
	if err != nil || len(all) == 0 {
		t.Fatalf("list segments: got %v, %v", all, err)
	}
	for _, path := range all {
		if err := do(path); err != nil {
			t.Fatal(err)
		}
	}
}

// The low-water mark follows the log up and down, and never exceeds its end.
func TestFloorFollowsLog(t *testing.T) {
	dir := filled(t, LogStoreWAL, 20)
	opened(t, dir, "", func(s *Stores) {
		for _, r := range [][2]uint64{{1, 5}, {15, 20}, {6, 14}} {
			if err := s.Logs.DeleteRange(r[0], r[1]); err != nil {
				t.Fatal(err)
			}
		}
	})
	holds(t, dir, LogStoreWAL, entriesTo(1, 0))
	opened(t, dir, "", func(s *Stores) {
		if err := s.Logs.StoreLog(&raft.Log{Index: 40, Term: 3, Data: []byte("entry 40")}); err != nil {
			t.Fatal(err)
		}
	})
	holds(t, dir, LogStoreWAL, entriesTo(40, 40))
	eachSegment(t, dir, os.Remove)
	if s, err := Open(storeConfig(dir, "")); err == nil {
		_ = s.Close()
		t.Error("open a log without entry 40: got no error")
	}
}
