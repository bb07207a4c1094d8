package events

import (
	"fmt"
	"iter"
	"strconv"

	"github.com/holdfast-metal/holdfast/fsm/internal/core"
	"github.com/holdfast-metal/holdfast/fsm/internal/schema"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// lastHistory returns the sequence of the newest entry in a machine's history, or zero if
// there is none.
func lastHistory(s *core.State, machineID string) uint64 {
	end := schema.HistoryKey(machineID, ^uint64(0))
	key, ok := s.History.Last(end[:len(end)-schema.OrderedSize], end)
	if !ok {
		return 0
	}
	seq, err := strconv.ParseUint(key[len(key)-schema.OrderedSize:], 16, 64)
	if err != nil { // put and the bulk loader write a record under its own key
		panic(fmt.Sprintf("read the sequence of history entry %q: %v", key, err))
	}
	return seq
}

// AddHistory adds an entry to a machine's history. If a deleted id is registered again, the
// sequence continues. The entry belongs to the machine's pool at this time.
func AddHistory(t *core.Tx, m *holdfastv1.Machine, e *holdfastv1.HistoryEntry) {
	e.MachineId, e.At, e.Sequence = m.GetMachineId(), t.Now, lastHistory(t.State, m.GetMachineId())+1
	e.Pool = m.GetSpec().GetPool()
	if e.Principal == "" {
		e.Principal = t.Command.GetPrincipal()
	}
	t.History.Put(e)
	AddNews(t, &holdfastv1.Event{Type: "machine." + e.GetFacet(), MachineId: e.GetMachineId(), Change: e})
}

// History returns the entries of a machine's history below a sequence number, newest first.
// If before is zero, it starts at the newest. The history outlives the machine.
func (v *View) History(machineID string, before uint64) iter.Seq[*holdfastv1.HistoryEntry] {
	if before == 0 {
		before = ^uint64(0)
	}
	return v.s.History.Descend(machineID+"/", schema.HistoryKey(machineID, before))
}
