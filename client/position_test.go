package client

import (
	"testing"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// TestPositionRestart: after a cursor that the cluster does not know, runs are delivered though
// their revisions are lower than those delivered before: a recovered cluster goes on from an older
// index.
func TestPositionRestart(t *testing.T) {
	p := newPosition(0)
	p.seen(&holdfastv1.RunEvent{Cursor: 7, Index: 900, Snapshot: &holdfastv1.Run{RunId: "r-1", Revision: 900}})
	p.restart()
	if failed := (&holdfastv1.RunEvent{Snapshot: &holdfastv1.Run{RunId: "r-1", Revision: 800}}); !p.fresh(failed) {
		t.Error("a run that the recovery has changed is not delivered")
	}
	if got := p.resume(); got != 0 {
		t.Errorf("resumes at %d, want 0", got)
	}
}
