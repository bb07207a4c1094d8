package events

import (
	"fmt"
	"iter"
	"strconv"
	"time"

	"github.com/holdfast-metal/holdfast/fsm/internal/core"
	"github.com/holdfast-metal/holdfast/fsm/internal/schema"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// Limits of histories. Every peer must keep the same entries.
const (
	MaxHistory = 1000 // entries of a machine
	// KeepDeleted is how long the history of a deleted machine stays. If its id was registered
	// again, its later history stays too.
	KeepDeleted = 365 * 24 * time.Hour
	// forgetBatch bounds the entries that one new entry removes. It exceeds one, so that histories
	// shrink to their limits.
	forgetBatch = 16
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
	if e.GetSequence() > MaxHistory {
		forgetHistory(t, e.GetMachineId(), e.GetSequence()-MaxHistory)
	}
	forgetDeleted(t)
	AddEvent(t, &holdfastv1.Event{Type: "machine." + e.GetFacet(), MachineId: e.GetMachineId(), Change: e})
}

// forgetHistory removes the oldest entries of a machine's history up to a sequence number, some
// of them if they are many.
func forgetHistory(t *core.Tx, machineID string, upTo uint64) {
	var old []string
	for e := range t.History.Ascend(machineID+"/", "") {
		if e.GetSequence() > upTo || len(old) == forgetBatch {
			break
		}
		old = append(old, schema.HistoryKey(machineID, e.GetSequence()))
	}
	for _, key := range old {
		t.History.Delete(key)
	}
}

// forgetDeleted removes entries of the machine that was deleted first, if it was long ago. Its
// entry of the deletion is the last to go.
func forgetDeleted(t *core.Tx) {
	for _, e := range t.History.Scan(schema.HistoryDeleted, "", "") {
		if t.Now.AsTime().Sub(e.GetAt().AsTime()) >= KeepDeleted {
			forgetHistory(t, e.GetMachineId(), e.GetSequence())
		}
		return
	}
}

// History returns the entries of a machine's history below a sequence number, newest first.
// If before is zero, it starts at the newest. The history outlives the machine.
func (v *View) History(machineID string, before uint64) iter.Seq[*holdfastv1.HistoryEntry] {
	if before == 0 {
		before = ^uint64(0)
	}
	return v.s.History.Descend(machineID+"/", schema.HistoryKey(machineID, before))
}
