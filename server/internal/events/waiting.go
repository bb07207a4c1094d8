package events

import (
	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/internal/filter"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// Bounds of a read. mostScanned is above the number of excluded events that a leader skips before
// it records the position (executor/webhook), so a waiting event is found.
const (
	mostScanned = 8192 // events that are matched
	mostWaiting = 1000 // events that are counted
)

// progress sets the number of matching events that wait for a webhook, and since when.
func progress(v *fsm.View, w *holdfastv1.Webhook) {
	if w.GetBehind() == 0 {
		return
	}
	f, err := filter.CompileEvent(w.GetFilter())
	if err != nil { // stored by a later version: nothing is delivered
		return
	}
	from := max(w.GetCursor()+1, v.FirstEvent()) // earlier events were deleted
	events, err := v.Events(from-1, mostScanned)
	if err != nil {
		return
	}
	for _, e := range events {
		if !f.Match(e) {
			continue
		}
		if w.Waiting++; w.GetWaiting() == 1 {
			w.WaitingSince = e.GetAt()
		}
		if w.GetWaiting() == mostWaiting {
			return
		}
	}
}
