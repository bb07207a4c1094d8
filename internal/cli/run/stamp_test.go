package run

import (
	"bytes"
	"testing"
	"time"
)

func TestLogTimestamps(t *testing.T) {
	var b bytes.Buffer
	s := &stamped{w: &b}
	for _, part := range []string{"one\ntw", "o\n", "", "\nend"} {
		if err := s.write(time.Date(2026, 1, 29, 15, 20, 0, 0, time.UTC), []byte(part)); err != nil {
			t.Fatal(err)
		}
	}
	const at = "2026-01-29T15:20:00.000Z "
	if got, want := b.String(), at+"one\n"+at+"two\n"+at+"\n"+at+"end"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
