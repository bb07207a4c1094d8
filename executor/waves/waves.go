// Package waves starts the runs of waves, within their limits. It decides nothing: Apply checks the
// limits, counts the machines and ends a wave. It has no state, so the next leader continues where
// this one ended, and no machine of a wave is started twice.
package waves

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/holdfast-metal/holdfast/cluster/leader"
	"github.com/holdfast-metal/holdfast/executor/task"
	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/internal/wait"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

const (
	// pause is the minimum time between two passes. The state changes often, and a run takes
	// seconds at least.
	pause = 100 * time.Millisecond
	// afterError is the time until a start whose outcome is unknown is proposed again.
	afterError = time.Second
	// turn is the maximum number of starts of one wave before the next wave has its turn.
	turn = 20
	// tries is the maximum number of tries of a start that the state refuses because it changed
	// meanwhile.
	tries = 5
)

// Starts completes commands that start runs: ids, defaults, and what the machine's provider lacks.
// The error is an *fsm.Error if no state would allow the start.
type Starts interface {
	PrepareStart(ctx context.Context, start *internalv1.StartRun) error
}

// Driver is the leader task that starts the runs of waves.
type Driver struct {
	proposer task.Proposer
	state    task.State
	starts   Starts
	log      *slog.Logger
}

// New returns a Driver; Run it in each term.
func New(p task.Proposer, s task.State, starts Starts, log *slog.Logger) *Driver {
	return &Driver{proposer: p, state: s, starts: starts, log: log}
}

// Run starts runs of the active waves until the term ends. It returns an error if another peer
// leads.
func (d *Driver) Run(ctx context.Context, t leader.Term) error {
	for {
		changed := d.state.Changed()
		more, err := d.pass(ctx, t.Epoch)
		switch {
		case ctx.Err() != nil:
			return nil
		case stale(err):
			return fmt.Errorf("start runs of waves: %w", err)
		case err != nil:
			d.log.Warn("starting a run of a wave failed, will retry", "error", err)
			if wait.Sleep(ctx, afterError) != nil {
				return nil
			}
			continue
		case more:
			continue
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil
		}
		if wait.Sleep(ctx, pause) != nil {
			return nil
		}
	}
}

// pass starts runs of each active wave. It reports whether a wave can start more runs now. A wave
// that fails does not hold up the others.
func (d *Driver) pass(ctx context.Context, epoch uint64) (more bool, err error) {
	var errs []error
	for _, w := range d.state.View().ActiveWaves() {
		again, err := d.advance(ctx, epoch, w.GetWaveId())
		if stale(err) {
			return false, err
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("wave %s: %w", w.GetWaveId(), err))
		}
		more = more || again
	}
	return more, errors.Join(errs...)
}

// advance starts runs of a wave until it is full or its turn ends. It reports whether the wave can
// start more.
func (d *Driver) advance(ctx context.Context, epoch uint64, id string) (more bool, err error) {
	for range turn {
		view := d.state.View()
		w, ok := view.Wave(id)
		machine := view.NextOfWave(id)
		if !ok || w.GetPhase() != holdfastv1.Wave_RUNNING || machine == "" || w.GetActive() >= w.GetMaxParallel() {
			return false, nil
		}
		if err := d.start(ctx, epoch, w, machine); err != nil {
			return false, err
		}
	}
	return true, nil
}

// start starts the run of a machine, or records why it cannot be started.
func (d *Driver) start(ctx context.Context, epoch uint64, w *holdfastv1.Wave, machine string) error {
	cmd, refusal, err := d.try(ctx, epoch, w, machine)
	if err != nil {
		return err
	}
	if refusal == nil {
		// failpoint: wave-start-committed
		return nil
	}
	switch {
	case refusal.Reason == fsm.ReasonWaveFull, refusal.Reason == fsm.ReasonWaveStopped:
		return nil // it has changed since the view
	case refusal.Code == fsm.Aborted:
		return refusal
	}
	cmd.Refusal, cmd.RefusalReason = task.Truncate(task.MaxValue, refusal.Message), refusal.Reason
	// failpoint: wave-refusal-due
	again, err := d.propose(ctx, epoch, w, cmd)
	// failpoint: wave-refusal-committed
	if again != nil && again.Reason != fsm.ReasonWaveStopped {
		return again
	}
	return err
}

// try proposes a start. It tries again if the state has changed since the preparation.
func (d *Driver) try(ctx context.Context, epoch uint64, w *holdfastv1.Wave, machine string) (
	cmd *internalv1.AdvanceWave, refusal *fsm.Error, err error,
) {
	for range tries {
		cmd = &internalv1.AdvanceWave{WaveId: w.GetWaveId(), Start: fsm.WaveStart(w, machine)}
		if err := d.starts.PrepareStart(ctx, cmd.GetStart()); err != nil {
			refusal, ok := errors.AsType[*fsm.Error](err)
			if !ok {
				return cmd, nil, fmt.Errorf("prepare the run of machine %s: %w", machine, err)
			}
			return cmd, refusal, nil
		}
		cmd.Start.Params = nil // Apply takes them from the wave
		// failpoint: wave-start-due
		refusal, err = d.propose(ctx, epoch, w, cmd)
		if refusal == nil || refusal.Code != fsm.Aborted || stale(refusal) {
			break
		}
	}
	return cmd, refusal, err
}

// propose commits a command on behalf of the caller that started the wave. It returns the refusal
// of the state, if any.
func (d *Driver) propose(
	ctx context.Context, epoch uint64, w *holdfastv1.Wave, cmd *internalv1.AdvanceWave,
) (*fsm.Error, error) {
	_, err := task.Propose(ctx, d.proposer, epoch, &internalv1.Command{
		Principal: w.GetPrincipal(), Op: &internalv1.Command_AdvanceWave{AdvanceWave: cmd},
	})
	if refusal, ok := errors.AsType[*fsm.Error](err); ok {
		return refusal, nil
	}
	return nil, err
}

// stale reports whether a newer leader has been established.
func stale(err error) bool {
	refusal, ok := errors.AsType[*fsm.Error](err)
	return ok && refusal.Reason == fsm.ReasonStaleEpoch
}
