package fsmtest

import (
	"errors"
	"fmt"

	"github.com/holdfast-metal/holdfast/fsm"
)

// checkEvents checks that cursors are consecutive, and that the last events of a machine and of
// a run show their present state.
func checkEvents(v *fsm.View) error {
	cursor := max(v.FirstEvent(), 1) - 1
	events, err := v.Events(cursor, int(v.LastEvent()))
	if err != nil {
		return fmt.Errorf("read all events: %w", err)
	}
	var errs []error
	phases, runs := map[string]string{}, map[string]string{}
	for _, e := range events {
		if cursor++; e.GetCursor() != cursor {
			errs = append(errs, fmt.Errorf("event %d comes after %d", e.GetCursor(), cursor-1))
		}
		switch c := e.GetChange(); {
		case c.GetFacet() == "phase":
			phases[c.GetMachineId()] = c.GetTo()
		case c.GetTo() == "deleted":
			delete(phases, c.GetMachineId())
		case e.GetRun() != nil:
			runs[e.GetRun().GetRunId()] = e.GetRun().GetPhase().String()
		}
	}
	if cursor != v.LastEvent() {
		errs = append(errs, fmt.Errorf("events end at %d, want %d", cursor, v.LastEvent()))
	}
	for id, want := range phases {
		if m, ok := v.Machine(id); !ok || m.GetStatus().GetPhase().String() != want {
			errs = append(errs, fmt.Errorf("machine %s is %v, its last event says %s",
				id, m.GetStatus().GetPhase(), want))
		}
	}
	for id, want := range runs {
		if r, ok := v.Run(id); ok && r.GetPhase().String() != want {
			errs = append(errs, fmt.Errorf("run %s is %v, its last event says %s", id, r.GetPhase(), want))
		}
	}
	for w := range v.Webhooks("") {
		if w.GetCursor() > v.LastEvent() {
			errs = append(errs, fmt.Errorf("webhook %s is at event %d of %d", w.GetName(), w.GetCursor(), v.LastEvent()))
		}
	}
	return errors.Join(errs...)
}
