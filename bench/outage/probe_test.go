package outage

import (
	"testing"
	"time"
)

// TestJudge checks that back concerns the first call after the event, and gap all answers.
func TestJudge(t *testing.T) {
	at := func(ms int) time.Time { return time.UnixMilli(int64(ms)) }
	w := &Prober{all: []success{{at(150), at(160)}, {at(0), at(1)}, {at(99), at(130)}, {at(140), at(155)},
		{at(1), at(2)}}}
	got := w.outage(Event{began: at(100), done: at(101)})
	if want := (Outage{Back: 55 * time.Millisecond, Gap: 128 * time.Millisecond}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}
