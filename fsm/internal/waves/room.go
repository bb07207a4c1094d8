package waves

import (
	"slices"

	"github.com/holdfast-metal/holdfast/fsm/internal/core"
	"github.com/holdfast-metal/holdfast/fsm/internal/refusal"
	"github.com/holdfast-metal/holdfast/fsm/internal/schema"
	"github.com/holdfast-metal/holdfast/fsm/internal/table"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// Limits of waves. Every peer must apply the same ones.
const (
	MaxParallel = 1_000  // active runs of a wave
	maxActive   = 100    // active waves
	maxEnded    = 200    // ended waves that are kept
	maxMembers  = 50_000 // machines of all waves
)

// NotFound returns the refusal of a command that names an unknown wave.
func NotFound(id string) *refusal.Error {
	return refusal.New(refusal.NotFound, "WAVE_NOT_FOUND", "wave %q not found", id).With("wave_id", id)
}

// Surplus returns the ended waves that must be removed before a wave of some machines starts,
// oldest first.
func Surplus(s *core.State, machines int) ([]*holdfastv1.Wave, *refusal.Error) {
	if n := s.Waves.Count(schema.WavesActive, "\xff"); n >= maxActive {
		return nil, refusal.New(refusal.FailedPrecondition, refusal.ReasonTooManyWaves,
			"the number of active waves is %d, the maximum: wait for the end of one, or cancel it", n)
	}
	ended, members := s.Waves.Count(schema.WavesEnded, "\xff"), s.WaveMembers.Len()+machines
	var surplus []*holdfastv1.Wave
	for _, w := range s.Waves.Scan(schema.WavesEnded, "", "") {
		if ended < maxEnded && members <= maxMembers {
			break
		}
		surplus = append(surplus, w)
		ended, members = ended-1, members-int(w.GetTotal())
	}
	if members > maxMembers {
		return nil, refusal.New(refusal.FailedPrecondition, refusal.ReasonTooManyWaves,
			"the active waves and this one have %d machines, at most %d are allowed: wait for the end of a wave, "+
				"or cancel it", members, maxMembers)
	}
	return surplus, nil
}

// Remove deletes a wave and the records of its machines.
func Remove(t *core.Tx, w *holdfastv1.Wave) {
	var keys []string
	for m := range t.WaveMembers.Ascend(schema.MemberPrefix(w.GetWaveId()), "") {
		keys = append(keys, schema.MemberKey(w.GetWaveId(), m.GetMachine().GetMachineId()))
	}
	for _, k := range keys {
		t.WaveMembers.Delete(k)
	}
	t.Waves.Delete(w.GetWaveId())
}

// active returns the waves that have not ended.
func active(s *core.State) []*holdfastv1.Wave {
	return slices.Collect(table.Values(s.Waves.Scan(schema.WavesActive, "", "")))
}
