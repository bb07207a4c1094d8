package core

import (
	"bytes"
	"strings"
	"testing"

	"github.com/holdfast-metal/holdfast/fsm/internal/table"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// TestNumbersFollowTheHeader checks that a snapshot is refused, also by a check, if the next
// event would not follow the last one.
func TestNumbersFollowTheHeader(t *testing.T) {
	for last, want := range map[uint64]string{
		6: "", 5: "the last record of events is 6, its header says 5", 7: "the last record of events is 6, its header says 7",
	} {
		s := NewState()
		for _, n := range []uint64{5, 6} {
			s.Events.Append(&holdfastv1.Event{Cursor: n})
		}
		s.Meta.FirstEvent, s.Meta.LastEvent = 5, last
		var file bytes.Buffer
		if _, err := table.Write(&file, s.Meta, s.Tables()); err != nil {
			t.Fatal(err)
		}
		for _, keep := range []bool{true, false} {
			_, _, err := ReadSnapshot(bytes.NewReader(file.Bytes()), keep)
			if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
				t.Errorf("header says %d, kept %v: got %v, want %q", last, keep, err, want)
			}
		}
	}
}

// TestFirstKept checks the number of the first row that a limit of three keeps.
func TestFirstKept(t *testing.T) {
	for _, c := range []struct{ first, last, want uint64 }{
		{0, 1, 1}, {1, 2, 1}, {1, 3, 1}, {1, 4, 2}, {2, 5, 3}, {9, 9, 9}, {9, 10, 9}, {1, 100, 98},
	} {
		if got := FirstKept(c.first, c.last, 3); got != c.want {
			t.Errorf("rows from %d to %d: got %d, want %d", c.first, c.last, got, c.want)
		}
	}
}
