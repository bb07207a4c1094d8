package runs

import (
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-metal/holdfast/fsm/internal/access"
	"github.com/holdfast-metal/holdfast/fsm/internal/core"
	"github.com/holdfast-metal/holdfast/fsm/internal/lex"
	"github.com/holdfast-metal/holdfast/fsm/internal/refusal"
	"github.com/holdfast-metal/holdfast/fsm/internal/schema"
	"github.com/holdfast-metal/holdfast/fsm/internal/waves"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// AdvanceWave starts the run of a waiting machine, or records that it cannot be started. It is a
// no-op if the machine is not waiting, so it can be proposed again. A refused start changes
// nothing.
func AdvanceWave(t *core.Tx, c *internalv1.AdvanceWave) (*holdfastv1.Wave, *refusal.Error) {
	w, ok := t.Waves.Edit(c.GetWaveId())
	if !ok {
		return nil, waves.NotFound(c.GetWaveId())
	}
	m, ok := t.WaveMembers.Edit(schema.MemberKey(w.GetWaveId(), c.GetStart().GetMachineId()))
	switch {
	case !ok:
		return nil, refusal.New(refusal.NotFound, "WAVE_MACHINE_NOT_FOUND", "machine %q is not in wave %s",
			c.GetStart().GetMachineId(), w.GetWaveId())
	case m.GetMachine().GetState() != holdfastv1.WaveMachine_WAITING:
		return w, nil
	case w.GetPhase() != holdfastv1.Wave_RUNNING:
		return nil, waveStopped(w)
	case c.GetRefusal() != "":
		waves.NoteRefusal(t, w, m, c.GetRefusalReason(), c.GetRefusal())
		return w, nil
	case w.GetActive() >= w.GetMaxParallel():
		return nil, refusal.New(refusal.FailedPrecondition, refusal.ReasonWaveFull,
			"wave %s has %s, its maximum", w.GetWaveId(), lex.Number(w.GetActive(), "active run"))
	}
	start := proto.CloneOf(c.GetStart())
	start.RequestId, start.Type, start.PlanId, start.Params = w.GetWaveId(), w.GetType(), w.GetPlanId(), w.GetParams()
	if err := samePool(t, m); err != nil {
		return nil, err
	}
	run, err := StartRun(t, start)
	if err != nil {
		return nil, err
	}
	waves.NoteStart(t, w, m, run)
	return w, nil
}

// samePool refuses a machine that has been moved to another pool since the wave was started: the
// caller's rights were checked for the pool of that time.
func samePool(t *core.Tx, m *internalv1.WaveMember) *refusal.Error {
	now, ok := t.Machines.Get(m.GetMachine().GetMachineId())
	if pool := now.GetSpec().GetPool(); ok && pool != m.GetPool() {
		return refusal.New(refusal.FailedPrecondition, "MACHINE_MOVED",
			"machine %q has been moved from %s to %s since the wave was started",
			now.GetMachineId(), access.PoolName(m.GetPool()), access.PoolName(pool))
	}
	return nil
}

// CancelWave ends the starts of a wave, and cancels its active runs unless the command keeps them.
func CancelWave(t *core.Tx, c *internalv1.CancelWave) (*holdfastv1.Wave, *refusal.Error) {
	w, ok := t.Waves.Edit(c.GetWaveId())
	switch {
	case !ok:
		return nil, waves.NotFound(c.GetWaveId())
	case waves.Ended(w) && w.GetPhase() == holdfastv1.Wave_CANCELED:
		return w, nil
	case waves.Ended(w):
		return nil, waveStopped(w)
	}
	if w.GetCancelRequestedAt() == nil {
		w.CancelRequestedAt, w.CancelReason, w.CanceledBy = t.Now, c.GetReason(), t.Command.GetPrincipal()
		waves.Stop(w)
		waves.Put(t, w, nil)
	}
	if !c.GetKeepRuns() {
		for _, m := range waves.Active(t.State, c.GetWaveId()) {
			// It cannot be refused: an active machine has a run that has not ended.
			_, _ = CancelRun(t, &internalv1.CancelRun{RunId: m.GetMachine().GetRunId(), Reason: c.GetReason()})
		}
	}
	w, _ = t.Waves.Get(c.GetWaveId())
	return w, nil
}

// waveStopped returns the refusal of a change of a wave that starts no more runs.
func waveStopped(w *holdfastv1.Wave) *refusal.Error {
	return refusal.New(refusal.FailedPrecondition, refusal.ReasonWaveStopped, "wave %s starts no more runs: it is %s",
		w.GetWaveId(), w.GetPhase()).With("wave_id", w.GetWaveId()).With("phase", w.GetPhase().String())
}
