package fsm

import (
	"github.com/holdfast-metal/holdfast/fsm/internal/limits"
	"github.com/holdfast-metal/holdfast/fsm/internal/refusal"
	"github.com/holdfast-metal/holdfast/fsm/internal/runs"
	"github.com/holdfast-metal/holdfast/fsm/internal/waves"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// MaxWaveMachines is the maximum number of machines of a wave.
const MaxWaveMachines = limits.WaveMachines

// ReasonWaveFull and ReasonWaveStopped are the reasons for refusing to start a run of a wave now,
// or ever.
const (
	ReasonWaveFull    = refusal.ReasonWaveFull
	ReasonWaveStopped = refusal.ReasonWaveStopped
)

// CheckStartWave checks the parts of a wave that need no state.
func CheckStartWave(c *internalv1.StartWave) *Error { return runs.CheckStartWave(c) }

// CompleteWave returns a checked wave with the canonical type, the default plan and the default
// limits.
func CompleteWave(w *holdfastv1.Wave) *holdfastv1.Wave { return runs.CompleteWave(w) }

// WaveStart returns the start of a machine's run in a wave.
func WaveStart(w *holdfastv1.Wave, machineID string) *internalv1.StartRun {
	return runs.WaveStart(w, machineID)
}

// WaveEnded reports whether a wave has ended.
func WaveEnded(w *holdfastv1.Wave) bool { return waves.Ended(w) }
