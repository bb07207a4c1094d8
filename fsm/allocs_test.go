package fsm_test

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/fsm/fsmtest"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// The allocation budgets of the most frequent operations: the present number and a fifth
// more, so that a hot path does not grow unnoticed. Raise one only with a reason.
const (
	budgetGet    = 3 // a machine read
	budgetNobody = 9 // a list whose filter matches nothing, for any size of the fleet
	// A machine read from a snapshot file, with its history entry and its event. The race detector
	// adds 3 allocations.
	budgetRead  = 15
	budgetCheck = 9 // the same, if the file is only checked
)

func withinBudget(t *testing.T, what string, budget float64, f func()) {
	t.Helper()
	if got := testing.AllocsPerRun(100, f); got > budget {
		t.Errorf("%s allocates %v times, want at most %v", what, got, budget)
	} else {
		t.Logf("%s allocates %v times of %v", what, got, budget)
	}
}

// registered returns a peer with some machines.
func registered(n int) *fsmtest.Peer {
	p := fsmtest.NewPeer()
	for i := range n {
		p.Do(&internalv1.RegisterMachine{Machine: &holdfastv1.Machine{MachineId: fmt.Sprintf("m-%d", i),
			Labels: map[string]string{"env": "prod", "provider": "fake"},
			Spec: &holdfastv1.MachineSpec{Rack: "r7", BmcEndpoint: fmt.Sprintf("bmc-%d.lan", i),
				Serial: fmt.Sprintf("S%04d", i)}}})
	}
	return p
}

// TestAllocsOfSnapshots bounds the cost of a row, because a snapshot has millions: it
// determines the time of a restore, a start and the check of a backup.
func TestAllocsOfSnapshots(t *testing.T) {
	files := map[int][]byte{}
	for _, n := range []int{1000, 2000} {
		s, err := registered(n).Snapshot()
		if err != nil {
			t.Fatal(err)
		}
		var file bytes.Buffer
		if err := s.WriteBackup(&file, fsm.BackupInfo{}); err != nil {
			t.Fatal(err)
		}
		files[n] = file.Bytes()
	}
	for _, c := range []struct {
		what   string
		budget float64
		read   func([]byte) error
	}{
		{"a machine of a snapshot that is read", budgetRead,
			func(file []byte) error { _, err := fsm.ReadBackup(bytes.NewReader(file)); return err }},
		{"a machine of a snapshot that is checked", budgetCheck, func(file []byte) error {
			_, err := fsm.CheckBackup(bytes.NewReader(file))
			return err
		}},
	} {
		allocs := func(n int) float64 {
			return testing.AllocsPerRun(3, func() {
				if err := c.read(files[n]); err != nil {
					t.Fatal(err)
				}
			})
		}
		if got := (allocs(2000) - allocs(1000)) / 1000; got > c.budget { // without the fixed cost of a file
			t.Errorf("%s allocates %.1f times, want at most %v", c.what, got, c.budget)
		} else {
			t.Logf("%s allocates %.1f times of %v", c.what, got, c.budget)
		}
	}
}

func TestAllocsOfReads(t *testing.T) {
	p := registered(2000)
	withinBudget(t, "a machine read", budgetGet, func() {
		if _, ok := p.View().Machine("m-77"); !ok {
			t.Fatal("not found")
		}
	})
	all := fsm.Query{Facets: &fsm.Facets{All: []fsm.Facets{{Path: "labels.env", Value: "prod"},
		{Path: "spec.rack", Value: "none"}}}}
	for what, q := range map[string]fsm.Query{"a list by index of nobody": all,
		"a list by text of nobody": {Texts: []string{"nobody has this"}}} {
		withinBudget(t, what, budgetNobody, func() {
			for range p.View().FindMachines(q, "") {
				t.Fatal("found one")
			}
		})
	}
}
