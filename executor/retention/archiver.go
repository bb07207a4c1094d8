package retention

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/holdfast-metal/holdfast/cluster/leader"
	"github.com/holdfast-metal/holdfast/executor/task"
	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/internal/archive"
	"github.com/holdfast-metal/holdfast/internal/wait"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// Archive stores old runs (archive/dir, archive/s3). Each call may be repeated with the
// same arguments.
type Archive interface {
	Put(ctx context.Context, name string, data []byte) error
	Get(ctx context.Context, name string) ([]byte, error)
	Remove(ctx context.Context, folder string) error
}

// ArchiverConfig tunes an Archiver.
type ArchiverConfig struct {
	After      time.Duration // time from the end of a run to its archival. Default 30 days
	KeepRuns   int           // newest runs of each machine that are never archived. Default 3; negative for none
	Keep       time.Duration // time from the end of a run to its removal from the archive; 0 for never
	Interval   time.Duration // between two passes. Default 1 min
	Timeout    time.Duration // of each call to the archive. Default 1 min
	Logger     *slog.Logger
	Registerer prometheus.Registerer
}

// Archiver is the leader task that moves old runs from the state to the archive, and
// eventually removes them from the archive.
type Archiver struct {
	cfg      ArchiverConfig
	proposer task.Proposer
	state    task.State
	archive  Archive
	moved    *prometheus.CounterVec
}

// NewArchiver returns an Archiver; Run it in each term.
func NewArchiver(cfg ArchiverConfig, p task.Proposer, s task.State, a Archive) *Archiver {
	cfg.After = cmp.Or(cfg.After, 30*24*time.Hour)
	cfg.KeepRuns = cmp.Or(cfg.KeepRuns, 3)
	cfg.Interval = cmp.Or(cfg.Interval, time.Minute)
	cfg.Timeout = cmp.Or(cfg.Timeout, time.Minute)
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	v := &Archiver{cfg: cfg, proposer: p, state: s, archive: a, moved: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "holdfast_archive_runs_total",
		Help: "Runs that this peer moved to the archive (archived) or removed from it (dropped), and failed tries (failed).",
	}, []string{"outcome"})}
	for _, outcome := range []string{"archived", "dropped", "failed"} {
		v.moved.WithLabelValues(outcome)
	}
	if cfg.Registerer != nil {
		cfg.Registerer.MustRegister(v.moved)
	}
	return v
}

// Run archives and drops runs once per interval until the term ends. Their age counts by the
// recorded clock.
func (v *Archiver) Run(ctx context.Context, t leader.Term) error {
	for {
		if err := v.pass(ctx, t.Epoch, v.state.View().Now()); err != nil {
			return err
		}
		if wait.Sleep(ctx, v.cfg.Interval) != nil {
			return nil
		}
	}
}

// pass archives and drops the runs that are due. It returns an error only if another peer leads
// now: errors of the archive are retried in the next pass.
func (v *Archiver) pass(ctx context.Context, epoch uint64, now time.Time) error {
	view := v.state.View()
	for run := range view.WholeRuns() {
		if v.due(view, run, now) {
			err := v.each(ctx, run, "archived", func(ctx context.Context) error {
				return v.move(ctx, epoch, view, run)
			})
			if err != nil || ctx.Err() != nil {
				return err
			}
		}
	}
	if v.cfg.Keep <= 0 {
		return nil
	}
	for run := range view.ArchivedRuns() {
		if now.Sub(run.GetFinishedAt().AsTime()) >= v.cfg.Keep {
			err := v.each(ctx, run, "dropped", func(ctx context.Context) error { return v.drop(ctx, epoch, run) })
			if err != nil || ctx.Err() != nil {
				return err
			}
		}
	}
	return nil
}

func (v *Archiver) due(view *fsm.View, run *holdfastv1.Run, now time.Time) bool {
	return now.Sub(run.GetFinishedAt().AsTime()) >= v.cfg.After &&
		(v.cfg.KeepRuns < 0 || view.NewerRuns(run, v.cfg.KeepRuns) >= v.cfg.KeepRuns)
}

// each calls do for one run and counts the outcome.
func (v *Archiver) each(
	ctx context.Context, run *holdfastv1.Run, outcome string, do func(context.Context) error,
) error {
	limited, cancel := context.WithTimeout(ctx, v.cfg.Timeout)
	defer cancel()
	err := do(limited)
	refused, _ := errors.AsType[*fsm.Error](err)
	switch {
	case err == nil:
		v.moved.WithLabelValues(outcome).Inc()
	case refused != nil && refused.Reason == fsm.ReasonStaleEpoch:
		return fmt.Errorf("archive run %s: %w", run.GetRunId(), err)
	case ctx.Err() == nil:
		v.moved.WithLabelValues("failed").Inc()
		v.cfg.Logger.Warn("run was not "+outcome+", will retry", "run", run.GetRunId(), "error", err)
	}
	return nil
}

// move writes a run to the archive, reads it back, and only then removes it from the
// state. A leader that dies in between leaves at most an unused object: the next leader
// writes the run again.
func (v *Archiver) move(ctx context.Context, epoch uint64, view *fsm.View, run *holdfastv1.Run) error {
	o, err := archive.Seal(run, view.LogBlocks(run.GetRunId()))
	if err != nil {
		return err
	}
	if err := v.archive.Put(ctx, o.Name, o.Data); err != nil {
		return err
	}
	// failpoint: archive-object-written
	back, err := v.archive.Get(ctx, o.Name)
	if err != nil {
		return fmt.Errorf("read back %s: %w", o.Name, err)
	}
	if !bytes.Equal(back, o.Data) {
		return fmt.Errorf("read back %s: its %d bytes differ from the %d written", o.Name, len(back), len(o.Data))
	}
	// failpoint: archive-object-verified
	_, err = v.proposer.Apply(ctx, &internalv1.Command{
		Epoch: epoch,
		Op: &internalv1.Command_ArchiveRun{ArchiveRun: &internalv1.ArchiveRun{
			RunId:     run.GetRunId(),
			Revision:  run.GetRevision(),
			Object:    o.Name,
			SizeBytes: int64(len(o.Data)),
			Sha256:    slices.Clone(o.SHA256),
		}},
	})
	return err
}

// drop removes a run from the archive, and then from the state.
func (v *Archiver) drop(ctx context.Context, epoch uint64, run *holdfastv1.Run) error {
	folder, err := archive.Folder(run.GetRunId())
	if err != nil {
		return err
	}
	// Removal is final, so the clock of the state decides, not this peer's.
	if _, err := v.proposer.Apply(ctx, &internalv1.Command{
		Epoch: epoch,
		Op: &internalv1.Command_DropArchivedRun{
			DropArchivedRun: &internalv1.DropArchivedRun{RunId: run.GetRunId(), KeepMs: v.cfg.Keep.Milliseconds()},
		},
	}); err != nil {
		return err
	}
	if err := v.archive.Remove(ctx, folder); err != nil {
		return err
	}
	// failpoint: archive-object-removed
	_, err = v.proposer.Apply(ctx, &internalv1.Command{
		Epoch: epoch,
		Op: &internalv1.Command_DropArchivedRun{
			DropArchivedRun: &internalv1.DropArchivedRun{RunId: run.GetRunId()},
		},
	})
	return err
}
