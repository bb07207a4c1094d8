package raftstore

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	"pgregory.net/rapid"
)

// TestAppliedEntriesStay checks that a log refuses to remove applied entries from its end, also
// after the process was killed or has stopped, and that everything else that Raft removes goes.
func TestAppliedEntriesStay(t *testing.T) {
	for _, store := range []string{LogStoreBolt, LogStoreWAL} {
		for _, tt := range []struct {
			name     string
			applied  uint64 // of the entries 1 to 10, before the last was written
			then     uint64 // at the end
			restart  string
			from, to uint64
			refused  bool
		}{
			{"an entry that is not applied", 5, 5, "", 6, 10, false},
			{"an applied one", 5, 5, "", 5, 10, true},
			{"one of many", 5, 5, "", 2, 10, true},
			{"applied after it was written", 5, 8, "", 8, 10, true},
			{"from the beginning, after a snapshot", 5, 8, "", 1, 5, false},
			{"all, after an installed snapshot", 5, 10, "", 1, 10, false},
			{"killed", 5, 8, "killed", 5, 10, true},
			{"killed, not known", 5, 8, "killed", 6, 10, false},
			{"stopped", 5, 8, "stopped", 8, 10, true},
			{"stopped, not applied", 5, 8, "stopped", 9, 10, false},
		} {
			t.Run(store+" "+tt.name, func(t *testing.T) {
				applied := uint64(0)
				cfg := storeConfig(t.TempDir(), store)
				cfg.Applied = func() uint64 { return applied }
				s := open(t, cfg)
				for i := range uint64(10) {
					if err := s.Logs.StoreLog(&raft.Log{Index: i + 1, Term: 1, Data: []byte("x")}); err != nil {
						t.Fatal(err)
					}
					applied = min(i+1, tt.applied)
				}
				applied = tt.then
				if tt.restart == "killed" {
					applied = 0 // nothing is noted
				}
				if tt.restart != "" {
					if err := s.Close(); err != nil {
						t.Fatal(err)
					}
					applied = 0 // until the state is restored
					s = open(t, cfg)
				}
				err := s.Logs.DeleteRange(tt.from, tt.to)
				if got := errors.As(err, new(*AppliedError)); got != tt.refused || err != nil && !tt.refused {
					t.Errorf("remove entries %d to %d: got %v, want refused: %t", tt.from, tt.to, err, tt.refused)
				}
				if last, err := s.Logs.LastIndex(); err != nil || tt.refused && last != 10 {
					t.Errorf("last entry: got %d, %v, want 10", last, err)
				}
				if tt.refused {
					ends(t, s, fmt.Sprintf("the leader's log contradicts entry %d", tt.from))
				}
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
			})
		}
	}
}

// ends checks that a peer with the stores ends for a reason that is not its disk.
func ends(t *testing.T, s *Stores, want string) {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), 10*time.Second)
	defer stop()
	err := s.WatchDisk(ctx)
	if errors.Is(err, ErrDisk) || !strings.HasPrefix(fmt.Sprint(err), want) {
		t.Errorf("end of the peer: got %v, want %s…", err, want)
	}
}

func open(t *testing.T, cfg *Config) *Stores {
	t.Helper()
	s, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestOlderSnapshotsAreRefused checks that no snapshot replaces a state that is ahead of it.
func TestOlderSnapshotsAreRefused(t *testing.T) {
	cfg := storeConfig(t.TempDir(), LogStoreWAL)
	cfg.Applied = func() uint64 { return 7 }
	s := open(t, cfg)
	defer func() { _ = s.Close() }()
	for _, index := range []uint64{7, 8} {
		if err := s.Replaces(index); err != nil {
			t.Errorf("snapshot %d of a peer that has applied 7: got %v", index, err)
		}
	}
	for i := range maxOlder {
		if len(s.guard.failed) > 0 {
			t.Errorf("got the end of the peer after %d older snapshots, want %d", i, maxOlder)
		}
		if err := s.Replaces(6); err == nil {
			t.Error("snapshot 6 of a peer that has applied 7: got no error")
		}
	}
	ends(t, s, "the leader's log contradicts entry 7")
}

// TestAppliedProperty removes what Raft removes when every leader has all committed entries, at
// random and with restarts. Nothing may be refused.
func TestAppliedProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var first, last, committed, applied uint64 = 1, 0, 0, 0
		s := &checksumLogs{LogStore: raft.NewInmemStore(), damaged: func(error) {}, refused: func(error) {}}
		s.now = func() uint64 { return applied }
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			var err error
			switch rapid.IntRange(0, 5).Draw(t, "step") {
			case 0, 1:
				last++
				err = s.StoreLog(&raft.Log{Index: last, Term: 1, Data: []byte("x")})
			case 2: // others have it too
				committed = rapid.Uint64Range(committed, last).Draw(t, "committed")
				applied = rapid.Uint64Range(applied, committed).Draw(t, "applied")
			case 3: // a new leader has other entries behind the committed ones
				if from := rapid.Uint64Range(committed+1, last+1).Draw(t, "from"); from <= last && from > first {
					err = s.DeleteRange(from, last)
					last = from - 1
				}
			case 4: // a snapshot
				if to := rapid.Uint64Range(0, applied).Draw(t, "to"); to >= first && to < last {
					err = s.DeleteRange(first, to)
					first = to + 1
				}
			case 5: // a restart
				s = &checksumLogs{LogStore: s.LogStore, damaged: func(error) {}, refused: func(error) {}, now: s.now}
				if err = s.check(); s.floor > applied {
					t.Fatalf("after a restart: got applied up to %d, want at most %d", s.floor, applied)
				}
				applied = max(s.floor, first-1) // from the log or the snapshot
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	})
}
