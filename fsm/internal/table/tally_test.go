package table_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/holdfast-metal/holdfast/fsm/internal/schema"
	"github.com/holdfast-metal/holdfast/fsm/internal/table"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// TestTally: counts by facets are those of reading every row, however rows were replaced.
func TestTally(t *testing.T) {
	facets := []table.Facets{{Path: "spec.rack", Value: "a"}, {Path: "status.phase", Value: "READY"},
		{Path: "labels.none", Value: "none"}}
	rapid.Check(t, func(t *rapid.T) {
		machines := table.New(schema.Machines())
		rows := map[string]*holdfastv1.Machine{}
		for range rapid.IntRange(0, 12).Draw(t, "writes") {
			m := drawMachine(t)
			if rapid.IntRange(0, 3).Draw(t, "delete") == 0 {
				machines.Delete(m.GetMachineId())
				delete(rows, m.GetMachineId())
				continue
			}
			machines.Put(m)
			rows[m.GetMachineId()] = m
		}
		want := make([]int, 8)
		for _, m := range rows {
			has := 0
			if m.GetSpec().GetRack() == "a" {
				has |= 1
			}
			if m.GetStatus().GetPhase() == holdfastv1.MachineStatus_READY {
				has |= 2
			}
			want[has]++
		}
		if diff := cmp.Diff(want, machines.Tally(facets...)); diff != "" {
			t.Fatalf("counts by facets (-want +got):\n%s", diff)
		}
	})
}
