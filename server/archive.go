package server

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

// Archive is where the steps and logs of old runs are read.
type Archive interface {
	Get(ctx context.Context, name string) ([]byte, error)
}

// archived reads the steps and the log of a run that has left the state.
func (s *Server) archived(ctx context.Context, run *holdfastv1.Run) (*internalv1.ArchivedRun, error) {
	at := run.GetArchive()
	if at.GetDroppedAt() != nil {
		return nil, fmt.Errorf("the archive has dropped it on %s, as its retention (archive.keep) asks for", at.GetDroppedAt().AsTime().Format("2006-01-02"))
	}
	if s.cfg.Archive == nil {
		return nil, errors.New("this peer has no archive configured (archive.url): ask another peer, or configure it")
	}
	data, err := s.cfg.Archive.Get(ctx, at.GetObject())
	if err != nil {
		return nil, err
	}
	return archive.Open(data, at.GetSha256())
}

// whole returns a run with its steps, wherever they are. An archive that cannot be read is no
// reason to withhold what is known: the note says what is missing.
func (s *Server) whole(ctx context.Context, run *holdfastv1.Run) *holdfastv1.Run {
	if run.GetArchive() == nil {
		return run
	}
	run = proto.CloneOf(run)
	old, err := s.archived(ctx, run)
	if err != nil {
		s.log.Warn("steps of an archived run are missing", "run", run.GetRunId(), "error", err)
		run.Archive.Note = "steps and log cannot be read: " + err.Error()
		return run
	}
	run.Steps = old.GetRun().GetSteps()
	return run
}

// archivedLog returns the log of an archived run from an offset on.
func (s *Server) archivedLog(ctx context.Context, run *holdfastv1.Run, offset int64) (iter.Seq[*holdfastv1.LogChunk], error) {
	old, err := s.archived(ctx, run)
	if err != nil {
		return nil, &fsm.Error{Code: fsm.FailedPrecondition, Reason: "LOG_ARCHIVED", Meta: map[string]string{"run_id": run.GetRunId(), "object": run.GetArchive().GetObject()},
			Message: fmt.Sprintf("the log of run %s lies in the archive, which cannot be read: %v", run.GetRunId(), err)}
	}
	return fsm.ReadLog(run.GetRunId(), slices.Values(old.GetLog()), offset), nil
}
