package fake

import (
	"sync"
	"time"

	"github.com/holdfast-metal/holdfast/providers"
)

// Effect is one effect on a machine, as returned by GET /effects (docs/operating.md).
type Effect struct {
	Seq         int       `json:"seq"` // 1, 2, 3 …: the order in which effects happened
	MachineID   string    `json:"machine_id"`
	RunID       string    `json:"run_id"`
	Step        string    `json:"step"`
	Attempt     int32     `json:"attempt"`
	Epoch       uint64    `json:"epoch"`
	Effect      string    `json:"effect"`
	Destructive bool      `json:"destructive"`
	At          time.Time `json:"at"`
	Detail      string    `json:"detail,omitempty"` // e.g. soft-off, or the image
}

// journal has all effects of a fleet, in order. Entries are never removed, because they are the
// evidence for checks.
type journal struct {
	mu  sync.Mutex
	all []Effect
}

// add records an effect. It reads the clock under the lock, so that the times are in order too.
func (j *journal) add(
	now func() time.Time, machineID string, op providers.Op, effect string, destructive bool, detail string,
) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.all = append(j.all, Effect{
		Seq: len(j.all) + 1, MachineID: machineID,
		RunID: op.RunID, Step: op.Step, Attempt: op.Attempt, Epoch: op.Epoch,
		Effect: effect, Destructive: destructive, At: now().UTC(), Detail: detail,
	})
}

// list returns the effects after a sequence number. An empty id matches all.
func (j *journal) list(machineID, runID string, after int) []Effect {
	j.mu.Lock()
	all := j.all // entries never change, so reading them needs no lock
	j.mu.Unlock()
	all = all[min(max(after, 0), len(all)):]
	out := []Effect{} // [] in JSON, never null
	if machineID == "" && runID == "" {
		return append(out, all...)
	}
	for _, e := range all {
		if (machineID == "" || e.MachineID == machineID) && (runID == "" || e.RunID == runID) {
			out = append(out, e)
		}
	}
	return out
}
