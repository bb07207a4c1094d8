package app

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestRetryNoteIsASentence(t *testing.T) {
	var b strings.Builder
	now := time.Now()
	r := slog.NewRecord(now, slog.LevelWarn, "no response yet, will retry", 0)
	r.Add("method", "/m", "addr", "n1:7400", "err", "connection refused", "until", now.Add(28*time.Second))
	if err := (noteHandler{w: &b, level: slog.LevelWarn}).Handle(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	want := "note: no answer from n1:7400 yet: connection refused: does a peer run there (--addr, HOLDFAST_ADDR)? " +
		"To try Holdfast: holdfast server --dev; retrying for 28s more (Ctrl-C ends it)\n"
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Errorf("note (-want +got):\n%s", diff)
	}
}

// TestNotesOfALongWait checks the notes of a command that waits over several calls: none gives the
// limit of a single call, and none repeats the cause of the last one.
func TestNotesOfALongWait(t *testing.T) {
	now := time.Now()
	for _, tt := range []struct {
		end  time.Time
		want string
	}{
		{time.Time{}, "note: no answer from n1:7400 yet: it waits for a leader; retrying (Ctrl-C ends it)\n" +
			"note: no answer from n1:7400 yet: it is starting; retrying (Ctrl-C ends it)\n"},
		{now.Add(10 * time.Minute), "note: no answer from n1:7400 yet: it waits for a leader; " +
			"retrying for 10m0s more (Ctrl-C ends it)\n" +
			"note: no answer from n1:7400 yet: it is starting; retrying for 10m0s more (Ctrl-C ends it)\n"},
	} {
		var b strings.Builder
		ctx := WithLongWait(t.Context(), tt.end)
		for _, why := range []string{"it waits for a leader", "it waits for a leader", "it is starting", "it is starting"} {
			r := slog.NewRecord(now, slog.LevelWarn, "no response yet, will retry", 0)
			r.Add("addr", "n1:7400", "err", why, "until", now.Add(28*time.Second))
			if err := (noteHandler{w: &b, level: slog.LevelWarn}).Handle(ctx, r); err != nil {
				t.Fatal(err)
			}
		}
		if diff := cmp.Diff(tt.want, b.String()); diff != "" {
			t.Errorf("notes (-want +got):\n%s", diff)
		}
	}
}
