package feed

import (
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

func TestEventLine(t *testing.T) {
	now := timestamppb.New(time.Date(2026, 11, 22, 10, 0, 0, 0, time.UTC))
	for name, tt := range map[string]struct {
		e    *holdfastv1.Event
		want string
	}{
		"a change by a run": {&holdfastv1.Event{Type: "machine.phase", MachineId: "m-1",
			Change: &holdfastv1.HistoryEntry{From: "READY", To: "PROVISIONING", RunId: "run-1", Principal: "ann"}},
			"2026-11-22T10:00:00Z  machine.phase  m-1  READY -> PROVISIONING  by run run-1"},
		"a first state, with a comment": {&holdfastv1.Event{Type: "machine.node", MachineId: "m-1",
			Change: &holdfastv1.HistoryEntry{To: "DISCOVERED", Principal: "ann", Comment: "new rack"}},
			"2026-11-22T10:00:00Z  machine.node  m-1  DISCOVERED  by ann  (new rack)"},
		"a run that failed": {&holdfastv1.Event{Type: "run.failed", MachineId: "m-1",
			Run: &holdfastv1.Run{RunId: "run-1", Type: "REPAVE", Error: &holdfastv1.RunError{Message: "no disk"}}},
			"2026-11-22T10:00:00Z  run.failed  m-1  run-1  REPAVE  (no disk)"},
		"a service": {&holdfastv1.Event{Type: "service.active",
			Service: &holdfastv1.Service{Target: &holdfastv1.ServiceTarget{Id: "u-1", ServiceName: "search"}}},
			"2026-11-22T10:00:00Z  service.active  u-1  search"},
	} {
		tt.e.At = now
		if got := eventLine(tt.e); got != tt.want {
			t.Errorf("%s: got %q, want %q", name, got, tt.want)
		}
	}
}
