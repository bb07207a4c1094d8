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

// Limits of the waves with machines of the pools of a caller that is limited to some pools. They
// leave room for other tenants; the limits above hold besides.
const (
	tenantActive  = 20
	tenantEnded   = 40
	tenantMembers = 10_000
)

// NotFound returns the refusal of a command that names an unknown wave.
func NotFound(id string) *refusal.Error {
	return refusal.New(refusal.NotFound, "WAVE_NOT_FOUND", "wave %q not found", id).With("wave_id", id)
}

// Room refuses a wave of some machines if a tenant or the fleet has too many, and returns the ended
// waves that must be removed before it starts. Pools are those of its machines, if its caller is
// limited to them, and else nil.
func Room(s *core.State, pools []string, machines int) ([]*holdfastv1.Wave, *refusal.Error) {
	old, err := tenantRoom(s, pools, machines)
	if err != nil {
		return nil, err
	}
	more, err := surplus(s, machines)
	for _, w := range more {
		if !slices.ContainsFunc(old, func(o *holdfastv1.Wave) bool { return o.GetWaveId() == w.GetWaveId() }) {
			old = append(old, w)
		}
	}
	return old, err
}

// tenantRoom applies the limits of a tenant.
func tenantRoom(s *core.State, pools []string, machines int) ([]*holdfastv1.Wave, *refusal.Error) {
	if len(pools) == 0 {
		return nil, nil
	}
	own := map[string]bool{}
	for _, p := range pools {
		own[p] = true
	}
	shares := func(w *holdfastv1.Wave) bool {
		return slices.ContainsFunc(w.GetPools(), func(p string) bool { return own[p] })
	}
	waves, members := 0, machines
	for _, w := range s.Waves.Scan(schema.WavesActive, "", "") {
		if shares(w) {
			waves, members = waves+1, members+int(w.GetTotal())
		}
	}
	switch {
	case waves >= tenantActive:
		return nil, refusal.New(refusal.FailedPrecondition, refusal.ReasonTooManyWaves,
			"the number of active waves with machines of these pools is %d, the maximum: wait for the end of one, or cancel it",
			waves)
	case members > tenantMembers:
		return nil, refusal.New(refusal.FailedPrecondition, refusal.ReasonTooManyWaves,
			"the active waves with machines of these pools and this one have %d machines, at most %d are allowed: wait for "+
				"the end of a wave, or cancel it", members, tenantMembers)
	}
	var ended []*holdfastv1.Wave
	for _, w := range s.Waves.Scan(schema.WavesEnded, "", "") {
		if shares(w) {
			ended = append(ended, w)
		}
	}
	return ended[:max(0, len(ended)+1-tenantEnded)], nil
}

// surplus applies the limits of the fleet. The ended waves are the oldest first.
func surplus(s *core.State, machines int) ([]*holdfastv1.Wave, *refusal.Error) {
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
