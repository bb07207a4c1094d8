package fsm

import (
	"fmt"
	"iter"
	"strconv"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

func historySchema() *schema[*holdfastv1.HistoryEntry] {
	return &schema[*holdfastv1.HistoryEntry]{
		kind: internalv1.SnapshotRecord_HISTORY,
		key:  func(e *holdfastv1.HistoryEntry) string { return historyKey(e.GetMachineId(), e.GetSequence()) },

		partial: partialHistory,
	}
}

// historyKey sorts by machine, then by sequence. A machine id has no slash.
func historyKey(machineID string, seq uint64) string {
	key := make([]byte, 0, 96) // enough for most ids; stays on the stack
	return string(appendOrdered(append(append(key, machineID...), '/'), seq))
}

// lastHistory returns the sequence of the newest entry in a machine's history, or zero if
// there is none.
func (s *state) lastHistory(machineID string) uint64 {
	key, ok := s.history.last(machineID+"/", historyKey(machineID, ^uint64(0)))
	if !ok {
		return 0
	}
	seq, err := strconv.ParseUint(key[len(key)-orderedSize:], 16, 64)
	if err != nil { // put and the bulk loader write a record under its own key
		panic(fmt.Sprintf("read the sequence of history entry %q: %v", key, err))
	}
	return seq
}

// addHistory adds an entry to a machine's history. If a deleted id is registered again, the
// sequence continues.
func (t *tx) addHistory(m *holdfastv1.Machine, e *holdfastv1.HistoryEntry) {
	e.MachineId, e.At, e.Sequence = m.GetMachineId(), t.now, t.lastHistory(m.GetMachineId())+1
	if e.Principal == "" {
		e.Principal = t.cmd.GetPrincipal()
	}
	t.history.put(e)
	t.addNews(&holdfastv1.Event{Type: "machine." + e.GetFacet(), MachineId: e.GetMachineId(), Change: e})
}

// History returns the entries of a machine's history below a sequence number, newest first.
// If before is zero, it starts at the newest. The history outlives the machine.
func (v *View) History(machineID string, before uint64) iter.Seq[*holdfastv1.HistoryEntry] {
	if before == 0 {
		before = ^uint64(0)
	}
	return v.history.descend(machineID+"/", historyKey(machineID, before))
}
