package watch

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-metal/holdfast/internal/filter"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// TestMatches checks the selected changes of a run that starts and ends, for a new stream and
// for one that resumes before the run ends.
func TestMatches(t *testing.T) {
	f, err := filter.Compile(&filter.Schema{Message: new(holdfastv1.Run).ProtoReflect().Descriptor()}, "phase=RUNNING")
	if err != nil {
		t.Fatal(err)
	}
	run := func(p holdfastv1.Run_Phase) *holdfastv1.Run { return &holdfastv1.Run{RunId: "run-1", Phase: p} }
	m := NewMatches(f, false)
	for _, tt := range []struct {
		phase             holdfastv1.Run_Phase
		first, last, want bool
	}{
		{holdfastv1.Run_PENDING, true, false, false},
		{holdfastv1.Run_RUNNING, false, false, true},
		{holdfastv1.Run_SUCCEEDED, false, true, true},
	} {
		if got := m.Selects("run-1", run(tt.phase), tt.first, tt.last); got != tt.want {
			t.Errorf("%s: selected %t, want %t", tt.phase, got, tt.want)
		}
	}
	if len(m.before) != 0 {
		t.Errorf("after the last change the stream keeps %v, want nothing", m.before)
	}
	for resumed, want := range map[bool]bool{false: false, true: true} {
		if got := NewMatches(f, resumed).Selects("run-1", run(holdfastv1.Run_SUCCEEDED), false, true); got != want {
			t.Errorf("the end alone, resumed %t: selected %t, want %t", resumed, got, want)
		}
	}
	if NewMatches(f, true).Selects("run-1", run(holdfastv1.Run_PENDING), true, false) {
		t.Error("a new run that does not match: selected")
	}
}

func TestBookmarks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b Bookmarks
		b.Sent(10)
		for _, tt := range []struct {
			cursor uint64
			after  time.Duration
			want   bool
		}{{11, 0, false}, {10 + bookmarkEvents, 0, true}, {10, bookmarkPause, false}, {11, 0, true}} {
			time.Sleep(tt.after) // sleep: of synctest
			if got := b.Due(tt.cursor); got != tt.want {
				t.Errorf("at cursor %d, %s later: due %t, want %t", tt.cursor, tt.after, got, tt.want)
			}
		}
	})
}
