package segment

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/raft"
	wal "github.com/hashicorp/raft-wal"
	"github.com/hashicorp/raft-wal/segment"
	"github.com/hashicorp/raft-wal/types"
)

const segmentSize = 4096

// written returns a directory with entries from 1 to n, in writes of two, and its segments.
func written(t *testing.T, n uint64) (string, []types.SegmentInfo) {
	t.Helper()
	dir := t.TempDir()
	w, err := wal.Open(dir, wal.WithSegmentSize(segmentSize))
	if err != nil {
		t.Fatal(err)
	}
	for i := uint64(1); i < n; i += 2 {
		if err := w.StoreLogs([]*raft.Log{logOf(i), logOf(i + 1)}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	state, err := Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	return dir, state.Segments
}

func logOf(i uint64) *raft.Log {
	return &raft.Log{Index: i, Data: fmt.Appendf(nil, "<entry %d>%0100d", i, 0)}
}

// read reads all segments, and returns the entries and the contents of the last segment.
func read(dir string, all []types.SegmentInfo) (got []string, last *Contents, err error) {
	for _, info := range all {
		last, err = Read(dir, info, func(index uint64, encoded []byte) error {
			var l raft.Log
			if err := (&wal.BinaryCodec{}).Decode(encoded, &l); err != nil {
				return err
			}
			if l.Index != index {
				return fmt.Errorf("its index is %d", l.Index)
			}
			got = append(got, string(l.Data))
			return nil
		})
		if err != nil {
			return got, nil, err
		}
	}
	return got, last, nil
}

func TestRead(t *testing.T) {
	dir, all := written(t, 60)
	if len(all) < 3 {
		t.Fatalf("got %d segments, want some", len(all))
	}
	got, last, err := read(dir, all)
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for i := range uint64(60) {
		want = append(want, string(logOf(i+1).Data))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("entries (-want +got):\n%s", diff)
	}
	if last.Last != 60 || last.Torn != 0 || last.Index != 0 {
		t.Errorf("last segment: got %+v, want one that ends with entry 60", last)
	}
}

// place returns the position of an entry in a file.
func place(t *testing.T, data []byte, index uint64) int {
	t.Helper()
	at := bytes.Index(data, fmt.Appendf(nil, "<entry %d>", index))
	if at < 0 {
		t.Fatalf("entry %d not found", index)
	}
	return at
}

// TestDamage changes one segment. The other bytes of its file must not hide that.
func TestDamage(t *testing.T) {
	tests := []struct {
		name   string
		tail   bool // the last segment, otherwise the first
		change func(data []byte, first, last int) []byte
		want   string // no error if it is empty
		torn   bool
	}{
		{"sealed, a bit of an entry", false, func(b []byte, first, _ int) []byte { b[first] ^= 1; return b },
			"entry 1 is damaged: checksum mismatch (at byte 0", false},
		{"sealed, truncated", false, func(b []byte, _, last int) []byte { return b[:last] },
			"checksum mismatch (at byte", false},
		{"sealed, the index", false, func(b []byte, _, _ int) []byte { return append(b[:len(b)-16], make([]byte, 16)...) },
			"is damaged", false},
		{"sealed, the header", false, func(b []byte, _, _ int) []byte { b[8]++; return b }, "entry 1 is damaged", false},
		{"a bit of an entry", true, func(b []byte, first, _ int) []byte { b[first] ^= 1; return b },
			"checksum mismatch (at byte 0", false},
		// raft-wal reads up to there, and would drop the rest without a word.
		{"the header of a frame", true, func(b []byte, first, _ int) []byte {
			at := bytes.LastIndexByte(b[:first], segment.FrameEntry)
			b[at] = 0xff
			return b
		}, "checksum mismatch (at byte 0", false},
		{"truncated", true, func(b []byte, _, last int) []byte { return b[:last] }, "the file is truncated", false},
		{"the end of the last write", true, func(b []byte, _, last int) []byte { clear(b[last:]); return b }, "", true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir, all := written(t, 62)
			info := all[0]
			if tt.tail {
				info = all[len(all)-1]
			}
			path := filepath.Join(dir, segment.FileName(info))
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			end := uint64(62)
			if !tt.tail {
				end = info.MaxIndex
			}
			data = tt.change(data, place(t, data, info.BaseIndex), place(t, data, end))
			if err := os.WriteFile(path, data, 0o600); err != nil {
				t.Fatal(err)
			}
			_, last, err := read(dir, all)
			if tt.want == "" {
				if err != nil || last.Last != 60 || (last.Torn > 0) != tt.torn {
					t.Errorf("read: got %+v, %v, want an incomplete write", last, err)
				}
				return
			}
			damage, ok := errors.AsType[*DamageError](err)
			if !ok || !bytes.Contains([]byte(damage.Error()), []byte(tt.want)) {
				t.Errorf("read: got %v, want %q", err, tt.want)
			}
		})
	}
	t.Run("missing", func(t *testing.T) {
		dir, all := written(t, 40)
		if err := os.Remove(filepath.Join(dir, segment.FileName(all[0]))); err != nil {
			t.Fatal(err)
		}
		if _, _, err := read(dir, all); !errors.Is(err, ErrMissing) {
			t.Errorf("read: got %v, want %v", err, ErrMissing)
		}
	})
}
