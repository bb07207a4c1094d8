package check

import (
	"fmt"

	"github.com/holdfast-metal/holdfast/providers/fake"
	"github.com/holdfast-metal/holdfast/test/robustness/check/final"
	"github.com/holdfast-metal/holdfast/test/robustness/workload"
)

// hardware checks each machine from the hardware's point of view. No leader touched it
// after a later one had, no run after a later one had begun, and two destructive calls were
// never in progress at once.
func hardware(_ *workload.History, f *final.Record) []error {
	var errs []error
	type machine struct {
		last fake.Effect
		over map[string]bool // runs after which another one was active
	}
	all := map[string]*machine{}
	for _, e := range f.Effects {
		m := all[e.MachineID]
		if m == nil {
			m = &machine{last: e, over: map[string]bool{}}
			all[e.MachineID] = m
		}
		if e.Epoch < m.last.Epoch {
			errs = append(errs, fmt.Errorf("%s comes after one of epoch %d", effectWords(e), m.last.Epoch))
		}
		if e.RunID != m.last.RunID {
			m.over[m.last.RunID] = true
		}
		if m.over[e.RunID] {
			errs = append(errs,
				fmt.Errorf("%s comes after run %s was active: two runs overlap", effectWords(e), m.last.RunID))
		}
		m.last = e
	}
	for _, m := range f.Hardware {
		if m.Overlaps > 0 {
			errs = append(errs,
				fmt.Errorf("machine %s was touched %d times while it was being changed", m.MachineID, m.Overlaps))
		}
	}
	return firstErrors(errs)
}
