package schema

import (
	"github.com/holdfast-metal/holdfast/fsm/internal/table"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// The indexes of waves.
const (
	WavesByTime = iota // all
	WavesActive        // not ended, by time
	WavesEnded         // ended, by the time of their end
	waveIndexes        // the number of indexes
)

// Waves returns the schema of waves.
func Waves() *table.Schema[*holdfastv1.Wave] {
	return &table.Schema[*holdfastv1.Wave]{
		Kind:    internalv1.SnapshotRecord_WAVES,
		Key:     (*holdfastv1.Wave).GetWaveId,
		Indexes: waveIndexes,
		Index: func(w *holdfastv1.Wave, add func(int, string)) {
			created := OrderedTime(w.GetCreatedAt(), w.GetWaveId())
			add(WavesByTime, created)
			if w.GetFinishedAt() == nil {
				add(WavesActive, created)
			} else {
				add(WavesEnded, OrderedTime(w.GetFinishedAt(), w.GetWaveId()))
			}
		},
	}
}

// The indexes of the machines of waves.
const (
	MembersByPosition = iota // wave/position: all
	MembersWaiting           // wave/position: those whose run has not been started
	MembersActive            // wave/position: those with an active run
	memberIndexes            // the number of indexes
)

// WaveMembers returns the schema of the machines of waves.
func WaveMembers() *table.Schema[*internalv1.WaveMember] {
	return &table.Schema[*internalv1.WaveMember]{
		Kind:    internalv1.SnapshotRecord_WAVE_MEMBERS,
		Key:     func(m *internalv1.WaveMember) string { return MemberKey(m.GetWaveId(), m.GetMachine().GetMachineId()) },
		Indexes: memberIndexes,
		Index: func(m *internalv1.WaveMember, add func(int, string)) {
			position := MemberPrefix(m.GetWaveId()) + Ordered(uint64(m.GetPosition()))
			add(MembersByPosition, position)
			switch m.GetMachine().GetState() {
			case holdfastv1.WaveMachine_WAITING:
				add(MembersWaiting, position)
			case holdfastv1.WaveMachine_ACTIVE:
				add(MembersActive, position)
			}
		},
	}
}

// MemberPrefix returns the beginning of the keys of a wave's machines. The id of a wave has no
// slash.
func MemberPrefix(waveID string) string { return waveID + "/" }

// MemberKey returns the key of a machine of a wave.
func MemberKey(waveID, machineID string) string { return MemberPrefix(waveID) + machineID }
