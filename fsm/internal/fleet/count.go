package fleet

import (
	"github.com/holdfast-metal/holdfast/fsm/internal/lifecycle"
	"github.com/holdfast-metal/holdfast/fsm/internal/schema"
	"github.com/holdfast-metal/holdfast/fsm/internal/table"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// StateCounts has the number of machines in each effective state.
type StateCounts [holdfastv1.EffectiveState_RETIRED + 1]int

// CountStates counts the machines by effective state. It decodes only machines with an active
// run.
func (v *View) CountStates() StateCounts {
	phases := []holdfastv1.MachineStatus_Phase{
		holdfastv1.MachineStatus_FACTORY_READY, holdfastv1.MachineStatus_MAINTENANCE,
		holdfastv1.MachineStatus_RMA, holdfastv1.MachineStatus_RETIRED,
	}
	facets := []table.Facets{{Path: "status.conditions." + lifecycle.InCluster, Value: "true"}}
	for _, p := range phases {
		facets = append(facets, table.Facets{Path: "status.phase", Value: p.String()})
	}
	var c StateCounts
	for has, n := range v.s.Machines.Tally(facets...) {
		var phase holdfastv1.MachineStatus_Phase
		for i, p := range phases {
			if has&(2<<i) != 0 {
				phase = p
			}
		}
		c[lifecycle.IdleState(phase, has&1 != 0)] += n
	}
	for _, run := range v.s.Runs.Scan(schema.RunsActive, "", "") {
		m, ok := v.s.Machines.Get(run.GetMachineId())
		if !ok || m.GetStatus().GetActiveRunId() != run.GetRunId() {
			continue // a console does not change the machine's state
		}
		c[lifecycle.IdleState(m.GetStatus().GetPhase(), lifecycle.Condition(m, lifecycle.InCluster).GetStatus())]--
		c[holdfastv1.EffectiveState_PROVISIONING]++
	}
	return c
}
