package fsm_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/holdfast-metal/holdfast/fsm/fsmtest"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// historyOf returns the first and the last number of a machine's history, and how many entries it
// has.
func historyOf(p *fsmtest.Peer, id string) (first, last uint64, n int) {
	for e := range p.View().History(id, 0) {
		if n++; n == 1 {
			last = e.GetSequence()
		}
		first = e.GetSequence()
	}
	return first, last, n
}

// TestHistoryIsBounded checks that a machine keeps its newest thousand entries, with their numbers.
func TestHistoryIsBounded(t *testing.T) {
	p := fsmtest.NewPeer()
	register(t, p, "m-1", ready)
	const changes = 1100
	for i := range changes {
		to := maintenance
		if i%2 == 1 {
			to = ready
		}
		do(t, p, &internalv1.SetMachinePhase{MachineId: "m-1", Phase: to, Comment: fmt.Sprint(i)})
	}
	first, last, n := historyOf(p, "m-1")
	if n != 1000 || last < changes || first != last-999 {
		t.Errorf("got %d entries, %d to %d, want the newest 1000", n, first, last)
	}
}

// TestHistoryOfDeletedMachines checks that the history of a deleted machine goes after a year, and
// that of a machine with the same id stays.
func TestHistoryOfDeletedMachines(t *testing.T) {
	p := fsmtest.NewPeer()
	for _, id := range []string{"gone", "again"} {
		register(t, p, id, ready)
		for range 20 {
			do(t, p, &internalv1.SetMachinePhase{MachineId: id, Phase: maintenance})
			do(t, p, &internalv1.SetMachinePhase{MachineId: id, Phase: ready})
		}
		do(t, p, &internalv1.DeleteMachine{MachineId: id})
	}
	_, deleted, _ := historyOf(p, "again")
	register(t, p, "again", ready)
	register(t, p, "other", ready)
	touch := func(n int) {
		for range n {
			do(t, p, &internalv1.SetMachinePhase{MachineId: "other", Phase: maintenance})
			do(t, p, &internalv1.SetMachinePhase{MachineId: "other", Phase: ready})
		}
	}
	p.Now = p.Now.Add(364 * 24 * time.Hour)
	touch(20)
	if _, _, n := historyOf(p, "gone"); n < 20 {
		t.Errorf("after 364 days: %d entries are left", n)
	}
	p.Now = p.Now.Add(2 * 24 * time.Hour)
	touch(20)
	if _, _, n := historyOf(p, "gone"); n != 0 {
		t.Errorf("after 366 days: got %d entries of the deleted machine, want none", n)
	}
	if first, _, n := historyOf(p, "again"); n == 0 || first != deleted+1 {
		t.Errorf("after 366 days: the machine with the same id has %d entries from %d, want them from %d", n, first,
			deleted+1)
	}
}
