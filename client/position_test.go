package client

import (
	"testing"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// TestPositionRestart checks that, after a cursor that the cluster does not know, runs are
// delivered even with lower revisions than before. A recovered cluster continues from an older
// index.
func TestPositionRestart(t *testing.T) {
	p := newPosition(0)
	p.seen(&holdfastv1.RunEvent{Cursor: 7, Index: 900, Snapshot: &holdfastv1.Run{RunId: "r-1", Revision: 900}})
	p.restart()
	if failed := (&holdfastv1.RunEvent{Snapshot: &holdfastv1.Run{RunId: "r-1", Revision: 800}}); !p.fresh(failed) {
		t.Error("run changed by the recovery: got no delivery")
	}
	if got := p.resume(); got != 0 {
		t.Errorf("got position %d, want 0", got)
	}
}
