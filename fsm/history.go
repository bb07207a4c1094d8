package fsm

import (
	"iter"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

func historySchema() *schema[holdfastv1.HistoryEntry, *holdfastv1.HistoryEntry] {
	return &schema[holdfastv1.HistoryEntry, *holdfastv1.HistoryEntry]{
		kind: internalv1.SnapshotRecord_HISTORY,
		key:  func(e *holdfastv1.HistoryEntry) string { return historyKey(e.GetMachineId(), e.GetSequence()) },
	}
}

// historyKey sorts by machine, then by sequence. A machine id has no slash.
func historyKey(machineID string, seq uint64) string { return machineID + "/" + ordered(seq) }

// addHistory writes one entry of a machine's history. It goes on counting when an id that was
// deleted is registered again.
func (t *tx) addHistory(m *holdfastv1.Machine, e *holdfastv1.HistoryEntry) {
	e.MachineId, e.At, e.Sequence = m.GetMachineId(), t.now, 1
	for last := range t.history.descend(m.GetMachineId()+"/", historyKey(m.GetMachineId(), ^uint64(0))) {
		e.Sequence = last.GetSequence() + 1
		break
	}
	if e.Principal == "" {
		e.Principal = t.cmd.GetPrincipal()
	}
	t.history.put(e)
	t.addNews(&holdfastv1.Event{Type: "machine." + e.GetFacet(), MachineId: e.GetMachineId(), Change: e})
}

// History gives the history of a machine below a sequence number, newest first; from the newest on
// when before is zero. It outlives the machine.
func (v *View) History(machineID string, before uint64) iter.Seq[*holdfastv1.HistoryEntry] {
	if before == 0 {
		before = ^uint64(0)
	}
	return v.history.descend(machineID+"/", historyKey(machineID, before))
}
