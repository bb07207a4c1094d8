package fleet

import (
	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/internal/describe"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// explainWaves adds the active waves of a machine.
func explainWaves(e *holdfastv1.MachineExplanation, v *fsm.View) {
	for _, w := range v.ActiveWaves() {
		m, ok := v.WaveMachine(w.GetWaveId(), e.GetMachineId())
		text := describe.WaveMachine(w, m)
		if !ok || text == "" {
			continue
		}
		e.Summary += "; " + describe.Cut(text, 2*mostCause)
		e.Suggestions = append(e.Suggestions, "holdfast wave get "+w.GetWaveId())
		if m.GetState() == holdfastv1.WaveMachine_WAITING && w.GetPhase() == holdfastv1.Wave_RUNNING &&
			e.GetWaitingFor() == "" {
			e.WaitingFor, e.Since = "its turn in wave "+w.GetWaveId(), w.GetCreatedAt()
		}
	}
}
