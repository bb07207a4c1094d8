// Package waves has the records of waves: their limits, how the end of a run changes them, when
// they end, and the queries. It must not start or cancel runs, which package runs does.
package waves

import (
	"iter"
	"slices"

	"github.com/holdfast-metal/holdfast/fsm/internal/core"
	"github.com/holdfast-metal/holdfast/fsm/internal/schema"
	"github.com/holdfast-metal/holdfast/fsm/internal/table"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// View has the queries of waves.
type View struct{ s *core.State }

// NewView returns the queries of a frozen state.
func NewView(s *core.State) View { return View{s} }

// Wave returns a wave without its machines.
func (v *View) Wave(id string) (*holdfastv1.Wave, bool) { return v.s.Waves.Get(id) }

// Waves returns all waves, newest first, each with its key for the next page. If before is empty,
// it starts at the newest.
func (v *View) Waves(before string) iter.Seq2[string, *holdfastv1.Wave] {
	return v.s.Waves.ScanBack(schema.WavesByTime, "", before)
}

// ActiveWaves returns the waves that have not ended, oldest first.
func (v *View) ActiveWaves() []*holdfastv1.Wave { return active(v.s) }

// WaveMachines returns the machines of a wave, in the order of their starts.
func (v *View) WaveMachines(id string) iter.Seq[*holdfastv1.WaveMachine] {
	members := table.Values(v.s.WaveMembers.Scan(schema.MembersByPosition, schema.MemberPrefix(id), ""))
	w, _ := v.Wave(id)
	return table.Map(members, func(m *internalv1.WaveMember) *holdfastv1.WaveMachine { return shown(w, m.GetMachine()) })
}

// shown returns a machine of a wave. One that waits in a wave that starts no more runs is
// NOT_STARTED.
func shown(w *holdfastv1.Wave, m *holdfastv1.WaveMachine) *holdfastv1.WaveMachine {
	if m.GetState() != holdfastv1.WaveMachine_WAITING || w.GetPhase() == holdfastv1.Wave_RUNNING {
		return m
	}
	return &holdfastv1.WaveMachine{MachineId: m.GetMachineId(), State: holdfastv1.WaveMachine_NOT_STARTED}
}

// WaveMachine returns a machine of a wave.
func (v *View) WaveMachine(id, machine string) (*holdfastv1.WaveMachine, bool) {
	m, ok := v.s.WaveMembers.Get(schema.MemberKey(id, machine))
	w, _ := v.Wave(id)
	return shown(w, m.GetMachine()), ok
}

// NextOfWave returns the id of the machine of a wave that starts next, or "".
func (v *View) NextOfWave(id string) string {
	for _, m := range v.s.WaveMembers.Scan(schema.MembersWaiting, schema.MemberPrefix(id), "") {
		return m.GetMachine().GetMachineId()
	}
	return ""
}

// Active returns the machines of a wave that have an active run.
func Active(s *core.State, id string) []*internalv1.WaveMember {
	return slices.Collect(table.Values(s.WaveMembers.Scan(schema.MembersActive, schema.MemberPrefix(id), "")))
}

// ActiveOfWave returns the machines of a wave that have an active run, in the order of their
// starts.
func (v *View) ActiveOfWave(id string) iter.Seq[*holdfastv1.WaveMachine] {
	members := table.Values(v.s.WaveMembers.Scan(schema.MembersActive, schema.MemberPrefix(id), ""))
	return table.Map(members, (*internalv1.WaveMember).GetMachine)
}

// PoolsOfWave returns the machines of a wave, each with the pool that it was in when the wave
// started.
func (v *View) PoolsOfWave(id string) iter.Seq2[string, string] {
	return func(yield func(machine, pool string) bool) {
		for _, m := range v.s.WaveMembers.Scan(schema.MembersByPosition, schema.MemberPrefix(id), "") {
			if !yield(m.GetMachine().GetMachineId(), m.GetPool()) {
				return
			}
		}
	}
}
