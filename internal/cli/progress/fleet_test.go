package progress

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-metal/holdfast/internal/cli/render"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// A thousand runs are shown as counts, kinds of failures, and the slowest ones. Few of them leave
// lines above the block.
func TestBoardOfManyRuns(t *testing.T) {
	b := NewBoard(false)
	left := 0
	add := func(i int, change func(*holdfastv1.Run)) {
		r := running()
		r.RunId, r.MachineId = fmt.Sprintf("run-%d", i), fmt.Sprintf("m-%d", i)
		change(r)
		left += len(b.Add(r, now()))
	}
	for i := range 1000 {
		add(i, func(r *holdfastv1.Run) {
			switch {
			case i < 600:
				r.Phase, r.FinishedAt = holdfastv1.Run_SUCCEEDED, ago(0)
			case i < 607:
				r.Phase, r.Error = holdfastv1.Run_FAILED, &holdfastv1.RunError{Step: "repave-os", Reason: "StepFailed",
					Message: "the disk is gone"}
			case i < 608:
				r.Phase, r.Error = holdfastv1.Run_FAILED, &holdfastv1.RunError{Reason: "Lost"}
			case i >= 650:
				r.Phase, r.StartedAt, r.Steps, r.CurrentStep, r.Wait, r.QueuePosition = holdfastv1.Run_PENDING, nil, nil,
					"", nil, int32(i-649)
			case i == 640: // the slowest
				r.Steps[1].StartedAt = ago(time.Hour)
			}
		})
	}
	if left > few {
		t.Errorf("got %d lines above the block, want at most %d", left, few)
	}
	got := b.Lines(now())
	want := `1000 runs  ████████████░░░░░░░░ 60 %  350 PENDING  42 RUNNING  600 SUCCEEDED  8 FAILED
at work on  repave-os 42
✗ 7 × repave-os: StepFailed  m-600, m-601, m-602, …  the disk is gone
✗ 1 × Lost  m-607  Lost
run-640       m-640         REPAVE    RUNNING    1/3    1m10s   repave-os: attempt 2/3: waiting for the installer's reports, deadline in 12m
`
	if diff := cmp.Diff(want, format(got[:5])); diff != "" {
		t.Errorf("lines (-want +got):\n%s", diff)
	}
	if want := 4 + 42 + 350; len(got) != want {
		t.Errorf("got %d lines, want %d, one for each active run", len(got), want)
	}
	if last := got[len(got)-1].Format(0, false); !strings.Contains(last, "run-999") {
		t.Errorf("last line: got %q, want the last waiting run", last)
	}

	// A repetition, as from a new watch, counts once.
	add(3, func(r *holdfastv1.Run) { r.Phase = holdfastv1.Run_SUCCEEDED })
	if diff := cmp.Diff(format(got[:1]), format(b.Lines(now())[:1])); diff != "" {
		t.Errorf("counts (-want +got):\n%s", diff)
	}
}

// The block of a thousand runs always fits the terminal.
func TestManyRunsFitTheTerminal(t *testing.T) {
	b := NewBoard(false)
	for i := range 1000 {
		r := running()
		r.RunId = fmt.Sprintf("run-%d", i)
		b.Add(r, now())
	}
	var out strings.Builder
	if err := render.NewBlock(&out, false).Draw(nil, b.Lines(now()), 80, 24); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(out.String(), "\n"); n > 23 {
		t.Errorf("got %d lines on a terminal of 24", n)
	}
	for line := range strings.Lines(out.String()) {
		if n := len([]rune(strings.TrimSuffix(line, "\n"))); n > 80 {
			t.Errorf("got %d columns on a terminal of 80: %q", n, line)
		}
	}
}
