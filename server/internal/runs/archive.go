package runs

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/internal/archive"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// Archive contains the steps and logs of old runs.
type Archive interface {
	Get(ctx context.Context, name string) ([]byte, error)
}

// archived returns the steps and the log of a run that has been moved to the archive.
func (s *Service) archived(ctx context.Context, run *holdfastv1.Run) (*internalv1.ArchivedRun, error) {
	at := run.GetArchive()
	if at.GetDroppedAt() != nil {
		return nil, fmt.Errorf("deleted from the archive on %s because of its retention (archive.keep)",
			at.GetDroppedAt().AsTime().Format("2006-01-02"))
	}
	if s.cfg.Archive == nil {
		return nil, errors.New("this peer has no archive configured (archive.url): configure it, or ask another peer")
	}
	data, err := s.cfg.Archive.Get(ctx, at.GetObject())
	if err != nil {
		return nil, err
	}
	return archive.Open(data, at.GetSha256())
}

// withSteps returns a run with its steps, from the state or from the archive. If the archive
// cannot be read, it returns the run without steps, and with a note about the error.
func (s *Service) withSteps(ctx context.Context, run *holdfastv1.Run) *holdfastv1.Run {
	if run.GetArchive() == nil {
		return run
	}
	run = proto.CloneOf(run)
	old, err := s.archived(ctx, run)
	if err != nil {
		s.Log.Warn("reading the steps of an archived run failed", "run", run.GetRunId(), "error", err)
		run.Archive.Note = "cannot read steps and log: " + err.Error()
		return run
	}
	run.Steps = old.GetRun().GetSteps()
	return run
}

// archivedLog returns the log of an archived run from an offset.
func (s *Service) archivedLog(
	ctx context.Context, run *holdfastv1.Run, offset int64,
) (iter.Seq[*holdfastv1.LogChunk], error) {
	old, err := s.archived(ctx, run)
	if err != nil {
		return nil, &fsm.Error{
			Code: fsm.FailedPrecondition, Reason: "LOG_ARCHIVED",
			Meta:    map[string]string{"run_id": run.GetRunId(), "object": run.GetArchive().GetObject()},
			Message: fmt.Sprintf("cannot read the log of run %s from the archive: %v", run.GetRunId(), err),
		}
	}
	return fsm.ReadLog(run.GetRunId(), slices.Values(old.GetLog()), offset), nil
}
